"""A call has a slot only while its bytes flow, and says so while it waits for one."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from mesh import slots
from mesh.slots import Slot, in_slot
from tests.support.polling import until


async def scripted(*steps: bytes | asyncio.Event) -> AsyncIterator[bytes]:
    """The bytes; an event is waited for."""
    for step in steps:
        if isinstance(step, bytes):
            yield step
        else:
            await step.wait()


async def test_a_call_gives_its_slot_back_while_no_bytes_come_and_takes_one_when_they_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slots, "IDLE_SECONDS", 0.01)
    one, go_on = asyncio.Semaphore(1), asyncio.Event()
    slot = Slot(one)
    chunks = slot.while_flowing(scripted(b"a", go_on, b"b"))

    assert await anext(chunks) == b"a"
    assert one.locked()
    coming = asyncio.ensure_future(anext(chunks))
    await until(lambda: not one.locked())
    await one.acquire()
    go_on.set()
    await until(lambda: slot.waiting)
    one.release()

    assert await coming == b"b"
    assert one.locked()
    assert [chunk async for chunk in chunks] == []


async def test_an_empty_chunk_gives_the_slot_back_and_the_end_takes_it() -> None:
    one = asyncio.Semaphore(1)
    slot = Slot(one)
    chunks = slot.while_flowing(scripted(b"a", b""))

    held = [one.locked() async for _ in chunks]

    assert held == [True, False]
    assert one.locked()


async def test_a_call_that_waits_for_a_slot_reports_it_until_it_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slots, "REPORT_SECONDS", 0.01)
    one = asyncio.Semaphore(1)
    await one.acquire()

    async def working(slot: Slot) -> AsyncGenerator[str, None]:
        yield "started"
        await slot.take()
        yield "finished"

    events = in_slot(one, working, "waiting")

    assert [await anext(events) for _ in range(3)] == ["started", "waiting", "waiting"]
    one.release()
    rest = [event async for event in events]
    assert [event for event in rest if event != "waiting"] == ["finished"]
    assert not one.locked()


async def test_a_closed_call_stops_its_work_and_frees_its_slot() -> None:
    one, stopped = asyncio.Semaphore(1), asyncio.Event()

    async def working(slot: Slot) -> AsyncGenerator[str, None]:
        await slot.take()
        try:
            yield "started"
            await asyncio.Event().wait()
        finally:
            stopped.set()

    events = in_slot(one, working, "waiting")
    assert await anext(events) == "started"
    reading = asyncio.ensure_future(anext(events))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait({reading})

    assert stopped.is_set()
    assert not one.locked()


async def test_a_call_that_is_cancelled_while_it_waits_takes_no_slot() -> None:
    one = asyncio.Semaphore(0)
    waiting: list[Slot] = []

    async def working(slot: Slot) -> AsyncGenerator[str, None]:
        waiting.append(slot)
        await slot.take()
        yield "never"

    reading = asyncio.ensure_future(anext(in_slot(one, working, "waiting")))
    await until(lambda: bool(waiting and waiting[0].waiting))
    reading.cancel()
    await asyncio.wait({reading})
    one.release()

    assert not one.locked()
