"""Which of our descendants is which service, and the memory and processor time each has had."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeVar

import psutil

from cli.local import mesh

ResultT = TypeVar("ResultT")

SERVICES = (*mesh.SERVICES, "nats")


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of memory of one service."""

    pid: int
    own: int
    """Resident, shared pages included."""
    with_children: int
    """Pages they share are counted once, where the system tells (Linux: PSS)."""


@dataclass(slots=True)
class Observed:
    """A process that runs, and what it has and has had."""

    pid: int

    @property
    def rss(self) -> int:
        """Bytes of memory it has."""
        return int(psutil.Process(self.pid).memory_info().rss)

    @property
    def cpu_seconds(self) -> float:
        """Processor time it has used."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)


def service_of(command: Sequence[str]) -> str | None:
    """The service a process with this command line is; None if it is none, or only holds one."""
    if command and PurePath(command[0]).name == "nats-server":
        return "nats"
    if len(command) == 4 and command[1:3] == ["-P", "-m"] and command[3] in SERVICES:
        return command[3]
    return None


def measure(root: psutil.Process) -> dict[str, Memory]:
    """The memory of every service below this process, by name."""
    return _of_each(root, memory_of)


def processor_seconds(root: psutil.Process) -> dict[str, float]:
    """What every service below this process has computed so far, by name."""
    return _of_each(root, seconds_of)


def _of_each(
    root: psutil.Process, measured: Callable[[psutil.Process], ResultT]
) -> dict[str, ResultT]:
    found: dict[str, ResultT] = {}
    for process in root.children(recursive=True):
        try:
            name = service_of(process.cmdline())
            if name is not None:
                found[name] = measured(process)
        except psutil.NoSuchProcess:  # it ended while we looked
            continue
    return found


def seconds_of(process: psutil.Process) -> float:
    """What a process and all below it have computed, those that have ended included."""
    seconds = 0.0
    for each in (process, *process.children(recursive=True)):
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:  # its parent has inherited its time
            continue
        seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def memory_of(process: psutil.Process) -> Memory:
    """What a process has, alone and with all below it."""
    total = _share(process)
    for child in process.children(recursive=True):
        try:
            total += _share(child)
        except psutil.NoSuchProcess:
            continue
    return Memory(process.pid, int(process.memory_info().rss), total)


def _share(process: psutil.Process) -> int:
    """Its memory; of a page that n processes share, the n-th part."""
    found = process.memory_full_info()
    return int(getattr(found, "pss", found.rss))


def restarted(samples: Iterable[Mapping[str, Memory]], name: str) -> bool:
    """Whether a service was not the same process all along; then its figures mean nothing."""
    return len({sample[name].pid for sample in samples if name in sample}) > 1
