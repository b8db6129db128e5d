"""SSRF guard: keeps a process from reaching this machine and its private networks.

Host names and redirects can change until the last moment, so the check runs at connect(), on the
address actually connected to. A proxy connects elsewhere: there the guard resolves and checks the
host name itself, which is the best it can do from here.
"""

import socket
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from mesh.public_addresses import is_public

SCHEMES = ("http", "https")


class ForbiddenAddressError(PermissionError):
    """Code in the child tried to reach an address that is not public, or used another protocol
    than HTTP."""


class Guard:
    """Refuses addresses that are not public, and remembers them."""

    def __init__(self, exempt: Iterable[str] = ()) -> None:
        self._exempt = set(exempt)
        self._proxies: set[tuple[str, int]] = set()
        self.refused: list[str] = []
        """The message of each refusal so far."""

    def trust_proxy(self, proxy: str) -> None:
        """Allows the operator's proxy at any address, but no other port of that host."""
        host, port = host_and_port(proxy)
        for *_, address in socket.getaddrinfo(host, port):
            self._proxies.add((str(address[0]), port))

    def check(self, address: Any) -> None:
        """Takes the argument of connect(); raises unless it is an allowed IP address."""
        if isinstance(address, tuple) and address[:2] in self._proxies:
            return
        host = str(address[0]) if isinstance(address, tuple) and address else str(address)
        if host not in self._exempt and not is_public(host):
            # Without the address: callers must not learn what an internal name resolves to.
            raise self.refusal("the source is not at a public address, or leads away from one")

    def check_url(self, url: str) -> None:
        """Raises unless the URL is HTTP; called on every redirect, before the request is sent."""
        if urlsplit(url).scheme.lower() not in SCHEMES:
            raise self.refusal("only http and https addresses are fetched")

    def check_host(self, url: str) -> None:
        """Checks a host that a proxy will connect to; a name only the proxy can resolve passes."""
        host = urlsplit(url).hostname or ""
        try:
            answers = socket.getaddrinfo(host, None)
        except OSError:
            return
        for *_, address in answers:
            self.check(address)

    def refusal(self, why: str) -> ForbiddenAddressError:
        """Records the refusal, since yt-dlp may swallow the exception, and returns it to raise."""
        self.refused.append(why)
        return ForbiddenAddressError(why)


def host_and_port(proxy: str) -> tuple[str, int]:
    """Host and port a proxy listens on."""
    parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    default_port = {"http": 80, "https": 443}.get(parts.scheme, 1080)
    return parts.hostname or "", parts.port or default_port
