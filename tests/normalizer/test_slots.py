"""Callers that send nothing hold no slot, and live streams hold none of a job."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from mesh import slots
from normalizer.engine import Event, Finished, Request, Samples, Waiting
from normalizer.ffmpeg_engine import FfmpegEngine
from normalizer.media_header import Layout, layout
from tests.normalizer.conftest import EngineMaker
from tests.normalizer.media import endless_wav, normalized, recording, sent
from tests.support.timeouts import Timeouts

STALL_SECONDS = 3601.5
LIVE = Request(live_stream=True)


class Caller:
    """Sends the first bytes, and the rest only when the test says so."""

    def __init__(self, data: bytes, first: int) -> None:
        self.pieces = [data[:first], data[first:]]
        self.idle = asyncio.Event()
        """The first bytes were taken."""
        self.go_on = asyncio.Event()

    async def sent(self) -> AsyncIterator[bytes]:
        yield self.pieces[0]
        self.idle.set()
        await self.go_on.wait()
        yield self.pieces[1]


async def computing(engine: FfmpegEngine, request: Request) -> AsyncGenerator[Event, None]:
    """A call that has a slot: its media flows as fast as its samples are read."""

    async def media() -> AsyncIterator[bytes]:
        for chunk in endless_wav(2**30):
            yield chunk

    events = engine.normalize(media(), request)
    while not isinstance(await anext(events), Samples):
        pass
    return events


@pytest.mark.parametrize("share", [0, 0.5], ids=["too little to begin", "half a recording"])
async def test_a_caller_that_sends_nothing_more_holds_no_slot(
    make_engine: EngineMaker, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    monkeypatch.setattr(slots, "IDLE_SECONDS", 0.05)
    engine, data = make_engine(max_recordings=1), recording("wav")
    caller = Caller(data, 100 + round(len(data) * share))
    idle = asyncio.ensure_future(normalized(engine, caller.sent()))
    await caller.idle.wait()

    other = await normalized(engine, data)
    assert not idle.done()
    caller.go_on.set()

    assert (await idle).samples == other.samples


async def test_a_caller_whose_file_has_its_index_last_holds_no_slot_while_it_sends_nothing(
    make_engine: EngineMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "IDLE_SECONDS", 0.05)
    engine, data = make_engine(max_recordings=1), recording("mp4")
    assert layout(data) is Layout.INDEX_LAST
    caller = Caller(data, len(data) // 2)
    idle = asyncio.ensure_future(normalized(engine, caller.sent()))
    await caller.idle.wait()

    other = await normalized(engine, data)
    caller.go_on.set()

    assert (await idle).samples == other.samples


@pytest.mark.parametrize("kind", ["wav", "mp4"])
async def test_empty_chunks_change_nothing(make_engine: EngineMaker, kind: str) -> None:
    engine, data = make_engine(), recording(kind)
    half = len(data) // 2

    async def with_pauses() -> AsyncIterator[bytes]:
        for chunk in (b"", data[:100], b"", data[100:half], b"", b"", data[half:], b""):
            yield chunk

    paused = await normalized(engine, with_pauses())

    assert paused.samples == (await normalized(engine, data)).samples


async def test_a_live_stream_takes_no_slot_of_a_job(make_engine: EngineMaker) -> None:
    engine = make_engine(max_recordings=1, max_live_streams=1)
    live = await computing(engine, LIVE)

    assert (await normalized(engine, recording("wav"))).finished
    await live.aclose()


async def test_an_idle_live_stream_keeps_its_slot_so_that_few_run(
    make_engine: EngineMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "IDLE_SECONDS", 0.001)
    monkeypatch.setattr(slots, "REPORT_SECONDS", 0.01)
    engine, data = make_engine(max_live_streams=1), recording("wav")
    caller = Caller(data, len(data) // 2)
    idle = asyncio.ensure_future(normalized(engine, caller.sent(), LIVE))
    await caller.idle.wait()
    second = engine.normalize(sent(data), LIVE)
    await anext(second)

    assert [await anext(second) for _ in range(20)] == [Waiting()] * 20
    caller.go_on.set()

    assert (await idle).finished
    assert isinstance([event async for event in second][-1], Finished)


async def test_waiting_for_a_slot_is_reported_and_is_no_stall(
    make_engine: EngineMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "REPORT_SECONDS", 0.01)
    engine = make_engine(max_recordings=1)
    first = await computing(engine, Request())
    second = engine.normalize(sent(recording("wav")), Request())
    await waiting_for_a_slot(second)
    await first.aclose()

    assert isinstance([event async for event in second][-1], Finished)


async def test_waiting_for_a_slot_in_the_middle_is_no_stall(
    make_engine: EngineMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("normalizer.pump.monotonic", lambda: now)
    monkeypatch.setattr(slots, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(slots, "REPORT_SECONDS", 0.01)
    timeouts = Timeouts(monkeypatch, STALL_SECONDS)
    engine = make_engine(max_recordings=1, stall_seconds=STALL_SECONDS)
    data = recording("wav")
    caller = Caller(data, len(data) // 2)
    events = engine.normalize(caller.sent(), Request())
    reading = asyncio.ensure_future(waiting_for_a_slot(events))
    await caller.idle.wait()
    other = await computing(engine, Request())
    caller.go_on.set()
    await reading

    now = STALL_SECONDS
    timeouts.expire()
    await waiting_for_a_slot(events)
    await other.aclose()

    assert isinstance([event async for event in events][-1], Finished)


async def waiting_for_a_slot(events: AsyncGenerator[Event, None]) -> None:
    """Reads events until the call says that it waits for a slot."""
    while not isinstance(await anext(events), Waiting):
        pass
