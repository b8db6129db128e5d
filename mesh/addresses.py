"""host:port, both ways, and ports that are free."""

import random
import socket
from contextlib import ExitStack, suppress

from mesh.errors import InvalidRequestError, UnavailableError
from mesh.reasons import Reason

LISTENING = range(20_000, 32_768)
MAX_TRIES = 1000


def split(address: str) -> tuple[str, int]:
    """Takes "127.0.0.1:50051" or "[::]:50051" apart."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise InvalidRequestError(f"{address!r} is not host:port", reason=Reason.REQUEST_INVALID)
    return host.strip("[]"), int(port)


def is_taken(address: str) -> bool:
    """Whether somebody listens there already."""
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
    """Loopback ports nobody uses now; all different.

    Not from the range systems take outgoing ports from: who listens there, ends and comes back may
    find the port taken by somebody's connection.
    """
    found: list[int] = []
    with ExitStack() as held:
        for port in random.sample(LISTENING, MAX_TRIES):
            if len(found) == count:
                return found
            probe = held.enter_context(socket.socket())
            with suppress(OSError):  # taken
                probe.bind(("127.0.0.1", port))
                found.append(port)
    raise UnavailableError("no port is free on this machine", reason=Reason.INTERNAL)
