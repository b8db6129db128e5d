"""A child with a fake DNS: a name such as seq.7f000001.7f000002.test spells its answers.

The first lookup gets the first address, the next one the next, and the last is repeated.
"""

import socket
from ipaddress import IPv4Address
from typing import Any

from downloader.commands import Command
from downloader.commands import run_child as real_run_child


def name_for(*addresses: str) -> str:
    """The name that resolves to these addresses, one after the other."""
    return ".".join(["seq", *(f"{int(IPv4Address(each)):08x}" for each in addresses), "test"])


def run_child(command: Command, media: Any, control: Any) -> None:
    """The entry point of a child, with getaddrinfo replaced."""
    asked: dict[str, int] = {}
    real_getaddrinfo = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if not (isinstance(name, str) and name.startswith("seq.")):
            return real_getaddrinfo(host, *arguments, **options)
        answers = name.split(".")[1:-1]
        turn = asked[name] = asked.get(name, -1) + 1
        address = str(IPv4Address(int(answers[min(turn, len(answers) - 1)], 16)))
        return real_getaddrinfo(address, *arguments, **options)

    socket.getaddrinfo = getaddrinfo
    real_run_child(command, media, control)
