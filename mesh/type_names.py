"""Names and addresses of collectors and executors, and how settings list them."""

import re
from collections.abc import Sequence

from mesh.addresses import is_numeric, split
from mesh.errors import InvalidRequestError

NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")
HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
"""Of a machine or a container; nothing that a gRPC target would read as a scheme or a path."""
MAX_ADDRESSES = 16
QUEUE_WORD = "queue"


def check_name(name: str) -> None:
    """Raises unless this can be the name of a type."""
    if not NAME.fullmatch(name):
        raise InvalidRequestError(
            'type must have from 1 to 40 letters, digits, "-" and "_"; not ' + repr(name[:100])
        )


def check_addresses(addresses: Sequence[str]) -> None:
    """Raises unless these are addresses of replicas: host:port, [::1]:port, each once."""
    if not 1 <= len(addresses) <= MAX_ADDRESSES:
        raise InvalidRequestError(f"a service has from 1 to {MAX_ADDRESSES} addresses (host:port)")
    if len(set(addresses)) < len(addresses):
        raise InvalidRequestError("an address is there twice")
    for address in addresses:
        host, port = split(address)
        written = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        known = is_numeric(host) or HOST_NAME.fullmatch(host)
        if not known or not port or written != address:
            raise InvalidRequestError(f"{address[:300]!r} is not host:port")


def listed_types(text: str) -> dict[str, list[str]]:
    """The addresses of each type in `type=address,address;type=queue`; none for a queue.

    Raises if it cannot be read.
    """
    found: dict[str, list[str]] = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        name, separator, where = (part.strip() for part in entry.partition("="))
        if not separator or name in found:
            raise InvalidRequestError(
                f"{entry[:100]!r}: each type once, as type=address,address or type={QUEUE_WORD}"
            )
        check_name(name)
        found[name] = []
        if where != QUEUE_WORD:
            found[name] = [one.strip() for one in where.split(",")]
            check_addresses(found[name])
    return found
