"""A job that only waits for bytes lends its slot, and takes it again when there are some."""

import asyncio
from asyncio import Semaphore
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mesh.slots import Slot
from orchestrator.pipeline import pipes, slow_downloads
from orchestrator.pipeline.pipes import Spool
from orchestrator.pipeline.slow_downloads import SLOW_BYTES, lend_slot
from orchestrator.pipeline.stages import StageError
from orchestrator.pipeline.stall import StallWatch
from tests.support.polling import until

NEVER = 3600.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that do not come within a moment are slow."""
    monkeypatch.setattr(slow_downloads, "SLOW_SECONDS", 0.05)
    monkeypatch.setattr(pipes, "ALIVE_SECONDS", 0.01)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool")
    yield spool
    spool.close()


class Reader:
    """Reads a spool in the background."""

    def __init__(self, spool: Spool) -> None:
        self.received = b""
        self.empty = 0
        """Empty frames."""
        self._spool = spool
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for frame in self._spool:
            self.empty += not frame
            self.received += frame


@asynccontextmanager
async def lending(
    one: Semaphore, spool: Spool, most: int = 1, watch: StallWatch | None = None
) -> AsyncIterator[Slot]:
    """A job that holds the only slot and lends it while its download is slow."""
    with Slot(one, held=True) as slot:
        lent = lend_slot(slot, spool, Semaphore(most), watch or StallWatch(NEVER))
        task = asyncio.create_task(lent)
        try:
            yield slot
        finally:
            task.cancel()
            await asyncio.wait({task})


async def test_a_job_whose_source_drips_lends_its_slot_until_there_is_something_to_compute(
    spool: Spool,
) -> None:
    one, reader = Semaphore(0), Reader(spool)
    async with lending(one, spool) as slot:
        while one.locked():
            await spool.put(b"x")
            await asyncio.sleep(0.005)
        await one.acquire()
        await spool.put(bytes(SLOW_BYTES - 1))
        for _ in range(10):
            await asyncio.sleep(0)
            assert not slot.waiting
        await spool.put(b"y")
        await until(lambda: slot.waiting)
        assert not reader.received.endswith(b"y")
        one.release()
        await until(lambda: reader.received.endswith(b"y"))
        assert one.locked()

    assert one._value == 1
    reader.task.cancel()


async def test_the_end_of_a_slow_download_is_something_to_compute(spool: Spool) -> None:
    one, reader = Semaphore(0), Reader(spool)
    async with lending(one, spool):
        await until(lambda: not one.locked())
        await spool.put(b"media")
        await spool.end()
        await reader.task
        assert one.locked()

    assert reader.received == b"media"


async def test_a_job_that_has_bytes_to_compute_keeps_its_slot(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_downloads, "SLOW_SECONDS", 0.001)
    one = Semaphore(0)
    await spool.put(b"media that nothing has read")
    async with lending(one, spool):
        for _ in range(50):
            await asyncio.sleep(0.002)
            assert one.locked()


async def test_only_so_many_jobs_go_on_without_a_slot(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_downloads, "SLOW_SECONDS", 0.001)
    one = Semaphore(0)
    async with lending(one, spool, most=0):
        for _ in range(50):
            await asyncio.sleep(0.002)
            assert one.locked()


async def test_the_reader_learns_meanwhile_that_more_will_come(spool: Spool) -> None:
    one, reader = Semaphore(0), Reader(spool)
    async with lending(one, spool):
        await until(lambda: not one.locked())
        await spool.put(b"media")
        await until(lambda: reader.empty > 2)
        assert reader.received == b""
        await spool.end()
        await reader.task

    assert reader.received == b"media"


async def test_an_attempt_that_waits_for_its_slot_has_not_stalled(spool: Spool) -> None:
    one, watch = Semaphore(0), StallWatch(0.3)
    async with lending(one, spool, watch=watch) as slot:
        await until(lambda: not one.locked())
        await one.acquire()
        await spool.put(bytes(SLOW_BYTES))
        await until(lambda: slot.waiting)
        watching = asyncio.create_task(watch.raise_when_stalled())
        done, _ = await asyncio.wait({watching}, timeout=1)
        assert not done
        one.release()
        with pytest.raises(StageError):
            await watching


async def test_a_job_that_ends_while_it_waits_for_its_slot_takes_none(spool: Spool) -> None:
    one = Semaphore(0)
    async with lending(one, spool) as slot:
        await until(lambda: not one.locked())
        await one.acquire()
        await spool.put(bytes(SLOW_BYTES))
        await until(lambda: slot.waiting)

    one.release()
    assert not one.locked()
