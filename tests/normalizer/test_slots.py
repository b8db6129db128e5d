"""Callers that send nothing hold no slot, and live streams hold none of a job."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from mesh import slots
from normalizer.engine import Event, Finished, Request, Samples, Waiting
from normalizer.ffmpeg_engine import FfmpegEngine
from tests.normalizer.conftest import EngineMaker
from tests.normalizer.media import endless_wav, normalized, recording, sent


async def stopping_at(data: bytes, size: int, go_on: asyncio.Event) -> AsyncIterator[bytes]:
    """The first bytes; the rest only when the test says so."""
    yield data[:size]
    await go_on.wait()
    yield data[size:]


async def computing(engine: FfmpegEngine, request: Request) -> AsyncGenerator[Event, None]:
    """A call that has a slot: its media flows as fast as its samples are read."""

    async def media() -> AsyncIterator[bytes]:
        for chunk in endless_wav(2**30):
            yield chunk

    events = engine.normalize(media(), request)
    while not isinstance(await anext(events), Samples):
        pass
    return events


async def test_a_caller_that_sent_too_little_to_begin_holds_no_slot(
    make_engine: EngineMaker,
) -> None:
    engine = make_engine(max_recordings=1)
    data, go_on = recording("wav"), asyncio.Event()
    idle = asyncio.ensure_future(normalized(engine, stopping_at(data, 100, go_on)))
    await asyncio.sleep(0)

    assert (await normalized(engine, data)).finished
    assert not idle.done()
    go_on.set()
    assert (await idle).finished


async def test_a_caller_that_stops_in_the_middle_holds_no_slot(
    make_engine: EngineMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "IDLE_SECONDS", 0.05)
    engine = make_engine(max_recordings=1)
    data, go_on = recording("wav"), asyncio.Event()
    idle = asyncio.ensure_future(normalized(engine, stopping_at(data, len(data) // 2, go_on)))
    await asyncio.sleep(0)

    other = await normalized(engine, data)
    go_on.set()

    assert (await idle).samples == other.samples


async def test_a_live_stream_takes_no_slot_of_a_job(make_engine: EngineMaker) -> None:
    engine = make_engine(max_recordings=1, max_live_streams=1)
    live = await computing(engine, Request(live_stream=True))

    assert (await normalized(engine, recording("wav"))).finished
    await live.aclose()


async def test_waiting_for_a_slot_is_reported_and_is_no_stall(
    make_engine: EngineMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "REPORT_SECONDS", 0.01)
    engine = make_engine(max_recordings=1)
    first = await computing(engine, Request())
    second = engine.normalize(sent(recording("wav")), Request())
    while not isinstance(await anext(second), Waiting):
        pass
    await first.aclose()

    assert isinstance([event async for event in second][-1], Finished)
