"""Downloads from sources that reset, stop short, drip or fall silent, with callers who hang up."""

import asyncio
import os
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import psutil

from benchmarks.download_sources import MEDIA
from mesh.status import reason_of
from ytcaption.v1 import downloader_service_pb2 as pb
from ytcaption.v1 import downloader_service_pb2_grpc as rpc

KINDS = ("good", "reset", "truncated", "loris", "loris-head", "silent")
ENDLESS = ("loris", "loris-head", "silent")
PATIENCE_SECONDS = 0.8
CANCELLED_SHARE = 0.3
AT_ONCE = 8
SETTLE_SECONDS = 15
ALLOWED_WARMING = 12 * 1024**2
ALLOWED_GROWTH = 2 * 1024**2
"""In the second half; what the allocator keeps for the next download comes and goes by as much."""


@dataclass(frozen=True, slots=True)
class Left:
    """Resources an idle service holds."""

    processes: int
    descriptors: int
    files: int
    service: int
    """Resident bytes of the service."""
    children: int
    """The same of its fork server and all other children."""

    @property
    def memory(self) -> int:
        """Resident bytes of all."""
        return self.service + self.children


@dataclass(slots=True)
class Torture:
    """What came of it."""

    before: Left
    halfway: Left
    after: Left
    ends: Counter[str] = field(default_factory=Counter)
    """Kind of source and how its download ended, and how often."""

    def faults(self) -> list[str]:
        """What should not be; empty is good."""
        faults = [f"{end}: {count}" for end, count in self.ends.items() if not _is_honest(end)]
        for name in ("processes", "descriptors", "files"):
            before, after = getattr(self.before, name), getattr(self.after, name)
            if after > before:
                faults.append(f"{after - before} {name} left behind")
        grown = self.after.memory - self.halfway.memory
        if grown > ALLOWED_GROWTH:
            faults.append(f"memory grew by {grown} bytes in the second half")
        if self.after.memory - self.before.memory > ALLOWED_WARMING:
            faults.append(f"memory grew by {self.after.memory - self.before.memory} bytes in all")
        return faults


async def torture(
    downloader: grpc.aio.Channel, service: psutil.Process, site: str, folder: Path, count: int
) -> Torture:
    """Runs so many downloads, twice, against a service that keeps its files in the folder.

    A heap only has its size after many calls at once, so growth is what the second half adds.
    """
    stub = rpc.DownloaderServiceStub(downloader)
    for kind in KINDS:  # whatever is only made once is made now
        await _one(stub, site, kind, PATIENCE_SECONDS)
    before = await _left(service, folder, None)
    chance = random.Random(count)  # noqa: S311 - the same every time
    ends: Counter[str] = Counter()
    readiness = asyncio.Semaphore(AT_ONCE)

    async def one(kind: str, patience: float | None) -> None:
        async with readiness:
            ends[f"{kind} {await _one(stub, site, kind, patience)}"] += 1

    async def half() -> Left:
        await asyncio.gather(*(one(*_fate(chance, number)) for number in range(count)))
        return await _left(service, folder, before)

    return Torture(before, await half(), await half(), ends)


def _fate(chance: random.Random, number: int) -> tuple[str, float | None]:
    kind = KINDS[number % len(KINDS)]
    hangs_up = kind in ENDLESS or chance.random() < CANCELLED_SHARE
    return kind, chance.uniform(0.02, PATIENCE_SECONDS) if hangs_up else None


async def _one(
    stub: rpc.DownloaderServiceStub, site: str, kind: str, patience: float | None
) -> str:
    call = stub.Download(pb.DownloadRequest(job_id=kind, source_url=f"{site}/{kind}.mp3"))
    got = bytearray()
    try:
        async with asyncio.timeout(patience):
            async for event in call:
                got += event.chunk
    except TimeoutError:
        return "cancelled" if MEDIA.startswith(bytes(got)) else "corrupt"
    except grpc.aio.AioRpcError as error:
        return reason_of(error) if MEDIA.startswith(bytes(got)) else "corrupt"
    finally:
        call.cancel()
    return "whole" if got == MEDIA else "corrupt"


def _is_honest(end: str) -> bool:
    kind, _, outcome = end.partition(" ")
    expected = {"good": "whole", "reset": "NETWORK_ERROR", "truncated": "NETWORK_ERROR"}
    return outcome in ("cancelled", expected.get(kind))


async def _left(service: psutil.Process, folder: Path, goal: Left | None) -> Left:
    """What is left once the last child is reaped; waits for that, but not for ever."""
    found = _look(service, folder)
    with suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_SECONDS):
            while not _at_rest(found, goal):
                await asyncio.sleep(0.1)
                found = _look(service, folder)
    return found


def _at_rest(found: Left, goal: Left | None) -> bool:
    if goal is None:
        return found.files == 0
    return (
        found.processes <= goal.processes
        and found.descriptors <= goal.descriptors
        and found.files <= goal.files
    )


def _look(service: psutil.Process, folder: Path) -> Left:
    children = service.children(recursive=True)
    descriptors = children_memory = 0
    for process in children:
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            descriptors += process.num_fds()
            children_memory += process.memory_info().rss
    return Left(
        processes=1 + len(children),
        descriptors=descriptors + service.num_fds(),
        files=_count(folder),
        service=service.memory_info().rss,
        children=children_memory,
    )


def _count(folder: Path) -> int:
    """Files and folders below; unlike `rglob`, `walk` skips a folder that vanishes meanwhile."""
    return sum(len(folders) + len(files) for _, folders, files in os.walk(folder))
