"""Separates public internet addresses from private, local and reserved ones."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

NAT64 = IPv6Network("64:ff9b::/96")

METADATA = frozenset({IPv4Address("168.63.129.16")})
"""A cloud metadata service with a public address; the others are link-local."""


def is_public(host: str) -> bool:
    """Whether this literal IP address is public; False for a host name."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    inner = _inner(address)
    return (
        inner.is_global
        and not inner.is_multicast
        and not inner.is_reserved
        and not (inner.version == 6 and inner.is_site_local)
        and inner not in METADATA
    )


def _inner(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address embedded in an IPv6 address, if there is one."""
    if isinstance(address, IPv4Address):
        return address
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
