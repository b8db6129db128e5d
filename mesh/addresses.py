"""Parses and resolves host:port addresses, and finds free ports."""

import asyncio
import os
import random
import socket
from collections import deque
from ipaddress import ip_address

from mesh.errors import InvalidRequestError, UnavailableError
from mesh.reasons import Reason

LOOPBACK = "127.0.0.1"
LISTENING = range(20_000, 32_768)
MAX_TRIES = 1000
MAX_HELD = 100
_held: deque[int] = deque()
"""Descriptors of the newest reservations; a process that ends releases its own."""


def split(address: str) -> tuple[str, int]:
    """Host and port of "127.0.0.1:50051" or "[::]:50051"."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise InvalidRequestError(f"{address!r} is not host:port")
    return host.strip("[]"), int(port)


def is_numeric(host: str) -> bool:
    """Whether the host is an IP address rather than a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the host; of names only "localhost" counts."""
    return ip_address(host).is_loopback if is_numeric(host) else host == "localhost"


async def resolve(host: str) -> list[str]:
    """IP addresses of a host, by the system's resolver; raises OSError if it has none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def is_taken(address: str) -> bool:
    """Whether the port is in use already."""
    host, port = split(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return True
    return False


def free_ports(count: int) -> list[int]:
    """Distinct loopback ports that are unused now, and that no other process gets from here.

    Not from the range of ephemeral ports: a service that restarts there may find its port taken by
    an outgoing connection.
    """
    found: list[int] = []
    for port in random.sample(LISTENING, MAX_TRIES):
        if len(found) == count:
            return found
        if _reserve(port):
            found.append(port)
    raise _none_free()


def free_row(count: int) -> int:
    """The first of as many such ports in a row."""
    for first in random.sample(LISTENING[:-count], MAX_TRIES):
        if all(_reserve(first + more) for more in range(count)):
            return first
    raise _none_free()


def _none_free() -> UnavailableError:
    return UnavailableError("no port is free on this machine", reason=Reason.INTERNAL)


def _reserve(port: int) -> bool:
    """Reserves a free TCP port by holding the UDP port of the same number.

    A service listens some time after its port was chosen; until then another process of ours
    would choose it, too.
    """
    with socket.socket() as probe:
        held = socket.socket(type=socket.SOCK_DGRAM)
        try:
            probe.bind((LOOPBACK, port))
            held.bind((LOOPBACK, port))
        except OSError:  # taken
            held.close()
            return False
    _held.append(held.detach())
    if len(_held) > MAX_HELD:
        os.close(_held.popleft())
    return True
