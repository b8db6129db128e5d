"""A child whose name server lies: a name such as seq.7f000001.7f000002.test spells its answers.

The first lookup gets the first address, the next one the next, and the last is repeated.
"""

import socket
from ipaddress import IPv4Address
from typing import Any

from downloader.order import Order
from downloader.order import carry_out as really_carry_out


def name_for(*addresses: str) -> str:
    """The name that resolves to these, one after the other."""
    return ".".join(["seq", *(f"{int(IPv4Address(each)):08x}" for each in addresses), "test"])


def carry_out(order: Order, media: Any, control: Any) -> None:
    """What a child does, after the name server was bribed."""
    asked: dict[str, int] = {}
    honest = socket.getaddrinfo

    def lie(host: Any, *arguments: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if not (isinstance(name, str) and name.startswith("seq.")):
            return honest(host, *arguments, **options)
        answers = name.split(".")[1:-1]
        turn = asked[name] = asked.get(name, -1) + 1
        address = str(IPv4Address(int(answers[min(turn, len(answers) - 1)], 16)))
        return honest(address, *arguments, **options)

    socket.getaddrinfo = lie
    really_carry_out(order, media, control)
