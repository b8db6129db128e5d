"""Free ports: unused, and each given out once."""

import socket
import subprocess
import sys

from mesh.addresses import free_ports, free_row, is_taken

CHOOSE = """
from mesh import addresses
addresses.LISTENING, addresses.MAX_TRIES = range({first}, {last}), 4
print(addresses.free_ports(1))
"""


def test_a_chosen_port_can_be_listened_on() -> None:
    first = free_row(3)
    for port in [*free_ports(3), first, first + 1, first + 2]:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", port))
            listening.listen()
            assert is_taken(f"127.0.0.1:{port}")


def test_a_port_chosen_here_is_not_chosen_by_another_process() -> None:
    first = free_row(4)

    chosen = subprocess.run(
        [sys.executable, "-c", CHOOSE.format(first=first, last=first + 4)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "no port is free" in chosen.stderr
    assert chosen.stdout == ""
