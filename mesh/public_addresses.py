"""Separates public internet addresses from special-purpose ones and from this machine's own."""

import socket
from contextlib import closing
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

SPECIAL: dict[str, str] = {
    # IANA IPv4 Special-Purpose Address Registry. No block of it serves media to the public, not
    # even those that are routed: Python's own table calls some of them global.
    "0.0.0.0/8": "this network, RFC 791",
    "10.0.0.0/8": "private use, RFC 1918",
    "100.64.0.0/10": "shared address space, RFC 6598; a cloud metadata service is in it",
    "127.0.0.0/8": "loopback, RFC 1122",
    "169.254.0.0/16": "link-local, RFC 3927; cloud metadata services are in it",
    "172.16.0.0/12": "private use, RFC 1918",
    "192.0.0.0/24": "IETF protocol assignments, RFC 6890; a cloud metadata service is in it",
    "192.0.2.0/24": "documentation, RFC 5737",
    "192.31.196.0/24": "AS112, RFC 7535",
    "192.52.193.0/24": "automatic multicast tunnelling, RFC 7450",
    "192.88.99.0/24": "6to4 relays, RFC 7526",
    "192.168.0.0/16": "private use, RFC 1918",
    "192.175.48.0/24": "AS112 delegation, RFC 7534",
    "198.18.0.0/15": "benchmarking, RFC 2544",
    "198.51.100.0/24": "documentation, RFC 5737",
    "203.0.113.0/24": "documentation, RFC 5737",
    "224.0.0.0/4": "multicast, RFC 5771",
    "240.0.0.0/4": "reserved, with the limited broadcast address, RFC 1112 and RFC 8190",
    # Public by its number, but only the virtual network of one cloud answers there.
    "168.63.129.16/32": "a cloud metadata service",
    # IANA IPv6 Special-Purpose Address Registry, as far as it lies within GLOBAL_UNICAST.
    "2001::/23": "IETF protocol assignments with Teredo and ORCHID, RFC 2928",
    "2001:db8::/32": "documentation, RFC 3849",
    "2002::/16": "6to4, RFC 3056, deprecated by RFC 7526",
    "2620:4f:8000::/48": "AS112 delegation, RFC 7534",
    "3ffe::/16": "6bone, returned by RFC 3701",
    "3fff::/20": "documentation, RFC 9637",
}
"""Blocks that are not the open internet, and the source of each."""

GLOBAL_UNICAST = IPv6Network("2000::/3")
"""RFC 4291. Outside of it are loopback, unique local, link-local, site-local, multicast, the
discard prefix (RFC 6666), segment routing (RFC 9602), local NAT64 (RFC 8215), unassigned space."""

NAT64 = IPv6Network("64:ff9b::/96")
"""RFC 6052: on networks with IPv6 alone, the addresses of all hosts that have IPv4 alone."""

_SPECIAL_V4 = [IPv4Network(block) for block in SPECIAL if ":" not in block]
_SPECIAL_V6 = [IPv6Network(block) for block in SPECIAL if ":" in block]
_DOCUMENTATION = IPv4Address("192.0.2.1")


def is_public(host: str) -> bool:
    """Whether this literal IP address is public and not of this machine; False for a host name.

    False for an address with a zone id, too: only link-local addresses need one.
    """
    if "%" in host:
        return False
    try:
        address = _inner(ip_address(host))
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        special = any(address in block for block in _SPECIAL_V4)
    else:
        special = address not in GLOBAL_UNICAST or any(address in block for block in _SPECIAL_V6)
    return not special and not is_own(address)


def is_own(address: IPv4Address | IPv6Address) -> bool:
    """Whether an interface of this machine has the address: a socket can be bound to those only.

    Asked each time, because addresses come and go. Where the system lets any address be bound
    (`ip_nonlocal_bind`), binding says nothing.
    """
    return _can_bind(address) and not _can_bind(_DOCUMENTATION)


def _can_bind(address: IPv4Address | IPv6Address) -> bool:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with closing(socket.socket(family, socket.SOCK_DGRAM)) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def _inner(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address that a connection to this IPv6 address reaches, if there is one."""
    if isinstance(address, IPv4Address):
        return address
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address
