"""Bytes that come too slowly for too long are an error; a slow reader is not."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from mesh.errors import TimedOutError
from mesh.flow import MinimumFlow, at_least
from mesh.reasons import Reason
from tests.support.timeouts import Timeouts

SECONDS = 3601.5


def too_slow() -> TimedOutError:
    return TimedOutError("too slow", reason=Reason.STALLED)


async def test_silence_ends_with_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    timeouts = Timeouts(monkeypatch, SECONDS)

    async def silence() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    reading = asyncio.ensure_future(anext(at_least(MinimumFlow(10, SECONDS), silence(), too_slow)))
    await asyncio.sleep(0)
    timeouts.expire()

    with pytest.raises(TimedOutError):
        await reading


async def test_a_byte_now_and_then_ends_with_the_error_too() -> None:
    async def dripping() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0.01)
            yield b"x"

    with pytest.raises(TimedOutError):
        async for _ in at_least(MinimumFlow(10**9, 0.2), dripping(), too_slow):
            pass


async def test_time_the_reader_takes_does_not_count() -> None:
    async def prompt() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x"

    received = []
    async for chunk in at_least(MinimumFlow(10**9, 1), prompt(), too_slow):
        received.append(chunk)
        await asyncio.sleep(0.5)

    assert received == [b"x"] * 3


def test_the_time_begins_anew_once_enough_bytes_are_here() -> None:
    flow = MinimumFlow(10, 60)

    for _ in range(3):
        flow.note(4, 19)
        flow.note(4, 19)
        assert flow.left == 22
        flow.note(4, 19)
        assert flow.left == 60


def test_a_flow_of_nothing_is_never_too_low() -> None:
    flow = MinimumFlow(0, 60)

    flow.note(0, 1000)

    assert flow.left == 60
