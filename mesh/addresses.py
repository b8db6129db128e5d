"""host:port, both ways, and ports that are free."""

import socket
from contextlib import ExitStack

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason


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
    """Loopback ports nobody uses now; all different."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
