"""Keeps a process from talking to this machine and its private networks.

Names and redirects can lie until the very last moment, so the check sits where the lie ends: at
connect(), on the address really connected to.
"""

import socket
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any

NAT64 = IPv6Network("64:ff9b::/96")


class ForbiddenAddressError(PermissionError):
    """Somebody tried to connect to an address that is not public."""


class Guard:
    """Refuses connections to addresses that are not public, and remembers them."""

    def __init__(self, exempt: Iterable[str] = ()) -> None:
        self._exempt = set(exempt)
        self.refused: list[str] = []
        """Addresses that were asked for in vain."""

    def allow(self, addresses: Iterable[str]) -> None:
        """These may be reached from now on, wherever they are."""
        self._exempt.update(addresses)

    def check(self, address: Any) -> None:
        """Takes what connect() takes; raises unless it is an IP address we may reach."""
        host = str(address[0]) if isinstance(address, tuple) and address else str(address)
        if host not in self._exempt and not is_public(host):
            self.refused.append(host)
            raise ForbiddenAddressError(f"{host} is not a public address")

    def install(self) -> None:
        """From here on every connection of this process is checked. There is no way back."""
        for name in ("connect", "connect_ex"):
            setattr(socket.socket, name, self._checked(getattr(socket.socket, name)))

    def _checked(self, connect: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def checked(sock: socket.socket, address: Any) -> Any:
            self.check(address)
            return connect(sock, address)

        return checked


def is_public(host: str) -> bool:
    """Whether this literal address belongs to the open internet; a name never does."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    inner = _inner(address)
    return inner.is_global and not inner.is_multicast and not inner.is_reserved


def _inner(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """The IPv4 address an IPv6 address stands for, if it does."""
    if isinstance(address, IPv4Address):
        return address
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address
