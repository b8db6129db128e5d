"""Which of our descendants is which service, and the memory each of them has."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import psutil

SERVICES = ("orchestrator", "downloader", "normalizer", "transcriber", "nats")


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident bytes of one service."""

    pid: int
    own: int
    with_children: int
    """Pages they share are counted for each: an upper bound."""


def service_of(command: Sequence[str]) -> str | None:
    """The service a process with this command line is; None if it is none, or only holds one."""
    if command and PurePath(command[0]).name == "nats-server":
        return "nats"
    if len(command) == 4 and command[1:3] == ["-P", "-m"] and command[3] in SERVICES:
        return command[3]
    return None


def measure(root: psutil.Process) -> dict[str, Memory]:
    """The memory of every service below this process, by name."""
    found: dict[str, Memory] = {}
    for process in root.children(recursive=True):
        try:
            name = service_of(process.cmdline())
            if name is not None:
                found[name] = memory_of(process)
        except psutil.NoSuchProcess:  # it ended while we looked
            continue
    return found


def memory_of(process: psutil.Process) -> Memory:
    """What a process has, alone and with all below it."""
    own = int(process.memory_info().rss)
    children = 0
    for child in process.children(recursive=True):
        try:
            children += int(child.memory_info().rss)
        except psutil.NoSuchProcess:
            continue
    return Memory(process.pid, own, own + children)


def restarted(samples: Iterable[Mapping[str, Memory]], name: str) -> bool:
    """Whether a service was not the same process all along; then its figures mean nothing."""
    return len({sample[name].pid for sample in samples if name in sample}) > 1
