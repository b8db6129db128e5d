"""A job that only waits for bytes gives its slot back, and takes one again when there are some."""

import asyncio
from asyncio import Semaphore
from pathlib import Path

import pytest

from mesh import slots
from mesh.slots import Slot
from orchestrator.pipeline import pipes
from orchestrator.pipeline.pipes import SLOW_BYTES, Spool
from orchestrator.pipeline.stall import StallWatch
from tests.support.polling import until


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that do not come within a moment are slow."""
    monkeypatch.setattr(pipes, "SLOW_SECONDS", 0.05)


class Reader:
    """Reads a spool in the background."""

    def __init__(self, spool: Spool) -> None:
        self.received = b""
        self.frames: list[bytes] = []
        self._spool = spool
        self.task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for frame in self._spool:
            self.frames.append(frame)
            self.received += frame


async def drip(spool: Spool, done: asyncio.Event) -> int:
    """A byte now and then; returns how many there were."""
    count = 0
    while not done.is_set():
        await spool.put(b"x")
        count += 1
        await asyncio.sleep(0.005)
    return count


async def test_a_job_whose_source_drips_gives_its_slot_back(tmp_path: Path, quick: None) -> None:
    one, fast = Semaphore(0), asyncio.Event()
    with Slot(one, held=True) as slot:
        spool = Spool(tmp_path / "spool", slot, Semaphore(1))
        reader, dripping = Reader(spool), asyncio.create_task(drip(spool, fast))
        await until(lambda: not one.locked())
        fast.set()
        count = await dripping
        await spool.put(bytes(SLOW_BYTES))
        await until(lambda: len(reader.received) == count + SLOW_BYTES)
        assert one.locked()
        await spool.end()
        await reader.task
        spool.close()


async def test_only_so_many_jobs_go_on_without_a_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipes, "SLOW_SECONDS", 0.01)
    one = Semaphore(0)
    with Slot(one, held=True) as slot:
        spool = Spool(tmp_path / "spool", slot, Semaphore(0))
        reader = Reader(spool)
        for count in range(1, 20):
            await asyncio.sleep(0.02)
            await spool.put(b"x")
            await until(lambda count=count: len(reader.received) == count)
            assert one.locked()
        await spool.end()
        await reader.task
        spool.close()


async def test_a_job_that_waits_for_a_slot_tells_the_stage_that_it_is_there(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "REPORT_SECONDS", 0.01)
    one = Semaphore(0)
    with Slot(one, held=True) as slot:
        spool = Spool(tmp_path / "spool", slot, Semaphore(1))
        reader = Reader(spool)
        await until(lambda: not one.locked())
        await one.acquire()
        await spool.put(b"media")
        await spool.end()
        await until(lambda: len(reader.frames) > 2)
        assert reader.received == b""
        one.release()
        await reader.task
        spool.close()

    assert reader.received == b"media"
    assert one._value == 1


async def test_waiting_for_a_slot_is_no_stall() -> None:
    slot = Slot(Semaphore(0))
    taking = asyncio.create_task(slot.take())
    await until(lambda: slot.waiting)
    watching = asyncio.create_task(StallWatch(0.05, slot=slot).raise_when_stalled())

    done, _ = await asyncio.wait({watching}, timeout=0.5)

    assert not done
    for task in (taking, watching):
        task.cancel()
    await asyncio.wait({taking, watching})


async def test_a_slot_that_comes_after_its_jobs_end_is_given_back() -> None:
    one = Semaphore(1)
    await one.acquire()
    with Slot(one) as slot:
        taking = asyncio.create_task(slot.take())
        await until(lambda: slot.waiting)
    one.release()
    await taking

    assert not one.locked()
