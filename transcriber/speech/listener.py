"""Samples in, windows of speech out, while the recording is still arriving."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from transcriber.vad import BATCH, Audio, VoiceDetector
from transcriber.windows import CHUNK, RATE, Moment, Window, Windower

SAMPLE_BYTES = 2
MAX_WAITING = 2
"""Windows that may wait for the model; then no more audio is taken from the caller."""


def offset(samples: int) -> timedelta:
    """Media time of a sample."""
    return timedelta(seconds=samples / RATE)


@dataclass(frozen=True, slots=True)
class HeardWindow:
    """A window and its samples, still as they came: half the size of floats."""

    span: Window
    data: bytes

    def audio(self) -> Audio:
        """The samples as the model wants them."""
        return _floats(self.data)


@dataclass(frozen=True, slots=True)
class Listened:
    """No window that is still to come begins before this moment."""

    offset: timedelta


@dataclass(frozen=True, slots=True)
class Ended:
    """There is no more."""

    duration: timedelta


Found = HeardWindow | Listened | Ended


class Listener:
    """Holds the samples a window may still need, and no others."""

    def __init__(self, detector: VoiceDetector) -> None:
        self._detector = detector
        self._windower = Windower()
        self._data = bytearray()
        self._first = 0
        """Number of the first sample in `_data`."""
        self._judged = 0

    @property
    def position(self) -> timedelta:
        """Everything before is in a window already, or silence."""
        return offset(max(0, min(self._windower.needed_from, self._total)))

    @property
    def _total(self) -> int:
        return self._first + len(self._data) // SAMPLE_BYTES

    def hear(self, data: bytes) -> list[HeardWindow]:
        """Takes any number of bytes; the windows they complete."""
        self._data += data
        found: list[HeardWindow] = []
        while self._total - self._judged >= BATCH:
            found += self._judge(BATCH)
        return found

    def finish(self) -> tuple[list[HeardWindow], Ended]:
        """The last windows."""
        if len(self._data) % SAMPLE_BYTES:
            raise InvalidRequestError(
                "the audio ends in the middle of a sample: it is not s16le",
                reason=Reason.REQUEST_INVALID,
            )
        total = self._total
        found = self._judge(total - self._judged) if total > self._judged else []
        last = self._windower.finish(total)
        return [*found, *self._cut(last)], Ended(offset(total))

    def _judge(self, count: int) -> list[HeardWindow]:
        batch = np.zeros(BATCH, np.float32)
        batch[:count] = _floats(self._bytes(self._judged, self._judged + count))
        loudness = np.sqrt(np.mean(batch.reshape(-1, CHUNK) ** 2, axis=1))
        found: list[HeardWindow] = []
        # Of a batch that was filled up with zeros, only the chunks that hold samples count.
        for number, probability in enumerate(self._detector.judge(batch)[: -(-count // CHUNK)]):
            moment = Moment(float(probability), float(loudness[number]))
            found += self._cut(self._windower.push(moment))
        self._judged += count
        self._forget()
        return found

    def _cut(self, span: Window | None) -> Iterator[HeardWindow]:
        if span is not None:
            stretches = (self._bytes(one.start, one.end) for one in span.stretches)
            yield HeardWindow(span, b"".join(stretches))

    def _bytes(self, start: int, end: int) -> bytes:
        begin = (start - self._first) * SAMPLE_BYTES
        return bytes(self._data[begin : begin + (end - start) * SAMPLE_BYTES])

    def _forget(self) -> None:
        unneeded = min(self._windower.needed_from, self._judged) - self._first
        if unneeded > 0:
            del self._data[: unneeded * SAMPLE_BYTES]
            self._first += unneeded


def _floats(data: bytes) -> Audio:
    return np.frombuffer(data, "<i2").astype(np.float32) / np.float32(32_768)


async def listen(
    samples: AsyncIterator[bytes], detector: VoiceDetector
) -> AsyncGenerator[Found, None]:
    """Windows in order; where it is after each frame; that it ended."""
    listener = Listener(detector)
    async for data in samples:
        for window in await asyncio.to_thread(listener.hear, data):
            yield window
        yield Listened(listener.position)
    windows, ended = await asyncio.to_thread(listener.finish)
    for window in windows:
        yield window
    yield ended


@asynccontextmanager
async def listening_ahead(
    samples: AsyncIterator[bytes], detector: VoiceDetector
) -> AsyncIterator[AsyncIterator[Found]]:
    """Goes on listening while the model is busy, but not further than MAX_WAITING windows."""
    queue: asyncio.Queue[Found | BaseException] = asyncio.Queue(MAX_WAITING)
    task = asyncio.create_task(_fill(queue, samples, detector))
    try:
        async with aclosing(_drain(queue)) as pieces:
            yield pieces
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _fill(
    queue: asyncio.Queue[Found | BaseException],
    samples: AsyncIterator[bytes],
    detector: VoiceDetector,
) -> None:
    try:
        async with aclosing(listen(samples, detector)) as pieces:
            async for found in pieces:
                # Positions are worth nothing late: they must not take a window's place.
                if not (isinstance(found, Listened) and queue.qsize()):
                    await queue.put(found)
    except Exception as error:  # noqa: BLE001 # raised again where the windows are taken
        await queue.put(error)


async def _drain(queue: asyncio.Queue[Found | BaseException]) -> AsyncGenerator[Found, None]:
    while True:
        found = await queue.get()
        if isinstance(found, BaseException):
            raise found
        yield found
        if isinstance(found, Ended):
            return
