"""Keeps a process from talking to this machine and its private networks.

Names and redirects can lie until the very last moment, so the check sits where the lie ends: at
connect(), on the address really connected to. What is handed to a proxy is connected to elsewhere:
there the host that is named is looked up and checked, which is the best that can be done from here.
"""

import socket
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from mesh.public_addresses import is_public

SCHEMES = ("http", "https")


class ForbiddenAddressError(PermissionError):
    """Somebody tried to reach an address that is not public, or by other means than HTTP."""


class Guard:
    """Refuses addresses that are not public, and remembers them."""

    def __init__(self, exempt: Iterable[str] = ()) -> None:
        self._exempt = set(exempt)
        self._proxies: set[tuple[str, int]] = set()
        self.refused: list[str] = []
        """Why, for each thing that was asked for in vain."""

    def trust_proxy(self, proxy: str) -> None:
        """The operator chose it, so it may be anywhere; but nothing else on its machine may."""
        host, port = host_and_port(proxy)
        for *_, address in socket.getaddrinfo(host, port):
            self._proxies.add((str(address[0]), port))

    def check(self, address: Any) -> None:
        """Takes what connect() takes; raises unless it is an IP address we may reach."""
        if isinstance(address, tuple) and address[:2] in self._proxies:
            return
        host = str(address[0]) if isinstance(address, tuple) and address else str(address)
        if host not in self._exempt and not is_public(host):
            raise self.refusal(f"{host} is not a public address")

    def check_url(self, url: str) -> None:
        """Raises unless it is HTTP; on every hop, before anything is sent."""
        if urlsplit(url).scheme.lower() not in SCHEMES:
            raise self.refusal("only http and https addresses are fetched")

    def check_host(self, url: str) -> None:
        """For what a proxy will connect to; a name only the proxy knows passes."""
        host = urlsplit(url).hostname or ""
        try:
            answers = socket.getaddrinfo(host, None)
        except OSError:
            return
        for *_, address in answers:
            self.check(address)

    def refusal(self, why: str) -> ForbiddenAddressError:
        """Remembers it; yt-dlp tends to forget the error itself."""
        self.refused.append(why)
        return ForbiddenAddressError(why)


def host_and_port(proxy: str) -> tuple[str, int]:
    """Where a proxy listens."""
    found = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    ordinary = {"http": 80, "https": 443}.get(found.scheme, 1080)
    return found.hostname or "", found.port or ordinary
