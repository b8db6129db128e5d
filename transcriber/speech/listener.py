"""Cuts incoming samples into windows of speech while the recording arrives."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from transcriber.decoder import Audio, to_floats
from transcriber.speech.vad import BATCH, VoiceDetector
from transcriber.speech.windows import CHUNK, RATE, WHOLE_SECONDS, Moment, Window, Windower, whole

SAMPLE_BYTES = 2
MAX_WAITING = 2
"""Windows that may wait for the model; beyond that no audio is read from the caller."""


def offset(samples: int) -> timedelta:
    """Media time of a sample."""
    return timedelta(seconds=samples / RATE)


@dataclass(frozen=True, slots=True)
class AudioWindow:
    """A window and its s16le samples."""

    span: Window
    data: bytes
    is_whole: bool = False
    """Whether it is all of a short recording."""

    def audio(self) -> Audio:
        """The samples, not copied."""
        return _samples(self.data)


@dataclass(frozen=True, slots=True)
class Position:
    """No later window begins before this offset."""

    offset: timedelta


@dataclass(frozen=True, slots=True)
class EndOfAudio:
    """The recording has ended."""

    duration: timedelta


ListenerEvent = AudioWindow | Position | EndOfAudio


class Listener:
    """Buffers only the samples that a later window may contain."""

    def __init__(self, detector: VoiceDetector, *, wait_for_short: bool) -> None:
        self._detector = detector
        self._windower = Windower()
        self._held: list[Moment] | None = [] if wait_for_short else None
        """Moments of a recording that may yet turn out short enough for one window."""
        self._data = bytearray()
        self._first = 0
        """Index of the first sample in `_data`."""
        self._judged = 0

    @property
    def position(self) -> timedelta:
        """Everything before is in an earlier window, or silence."""
        return offset(max(0, min(self._windower.needed_from, self._total)))

    @property
    def _total(self) -> int:
        return self._first + len(self._data) // SAMPLE_BYTES

    def hear(self, data: bytes) -> list[AudioWindow]:
        """Takes any number of bytes and returns the windows they complete."""
        self._data += data
        found: list[AudioWindow] = []
        while self._total - self._judged >= BATCH:
            found += self._judge(BATCH)
        return found

    def finish(self) -> tuple[list[AudioWindow], EndOfAudio]:
        """The last windows, and the duration."""
        if len(self._data) % SAMPLE_BYTES:
            raise InvalidRequestError(
                "the audio ends in the middle of a sample: it is not s16le",
                reason=Reason.REQUEST_INVALID,
            )
        total = self._total
        found = self._judge(total - self._judged) if total > self._judged else []
        if self._held is None:
            found += self._cut(self._windower.finish(total))
        else:
            found += self._cut(whole(self._held, total), is_whole=True)
        return found, EndOfAudio(offset(total))

    def _judge(self, count: int) -> list[AudioWindow]:
        batch = np.zeros(BATCH, np.float32)
        batch[:count] = to_floats(_samples(self._bytes(self._judged, self._judged + count)))
        loudness = np.sqrt(np.mean(batch.reshape(-1, CHUNK) ** 2, axis=1))
        # Chunks that are only padding do not count.
        moments = [
            Moment(float(probability), float(loudness[number]))
            for number, probability in enumerate(self._detector.judge(batch)[: -(-count // CHUNK)])
        ]
        self._judged += count
        if self._held is not None:
            moments = self._held = self._held + moments
            if self._judged <= WHOLE_SECONDS * RATE:
                return []
            self._held = None
        found = [one for each in moments for one in self._cut(self._windower.push(each))]
        self._forget()
        return found

    def _cut(self, span: Window | None, *, is_whole: bool = False) -> Iterator[AudioWindow]:
        if span is not None:
            stretches = (self._bytes(one.start, one.end) for one in span.stretches)
            yield AudioWindow(span, b"".join(stretches), is_whole)

    def _bytes(self, start: int, end: int) -> bytes:
        begin = (start - self._first) * SAMPLE_BYTES
        return bytes(self._data[begin : begin + (end - start) * SAMPLE_BYTES])

    def _forget(self) -> None:
        unneeded = min(self._windower.needed_from, self._judged) - self._first
        if unneeded > 0:
            del self._data[: unneeded * SAMPLE_BYTES]
            self._first += unneeded


def _samples(data: bytes) -> Audio:
    return np.frombuffer(data, "<i2")


async def listen(
    samples: AsyncIterator[bytes], listener: Listener
) -> AsyncGenerator[ListenerEvent, None]:
    """Windows in order, the position after each frame, and the end."""
    async for data in samples:
        for window in await asyncio.to_thread(listener.hear, data):
            yield window
        yield Position(listener.position)
    windows, ended = await asyncio.to_thread(listener.finish)
    for window in windows:
        yield window
    yield ended


@asynccontextmanager
async def windows_ahead(
    samples: AsyncIterator[bytes], listener: Listener
) -> AsyncIterator[AsyncIterator[ListenerEvent]]:
    """Reads ahead while the model is busy, by at most MAX_WAITING windows."""
    queue: asyncio.Queue[ListenerEvent | BaseException] = asyncio.Queue(MAX_WAITING)
    task = asyncio.create_task(_fill(queue, samples, listener))
    try:
        async with aclosing(_drain(queue)) as events:
            yield events
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _fill(
    queue: asyncio.Queue[ListenerEvent | BaseException],
    samples: AsyncIterator[bytes],
    listener: Listener,
) -> None:
    try:
        async with aclosing(listen(samples, listener)) as events:
            async for found in events:
                # A late position is useless and must not take a window's place.
                if not (isinstance(found, Position) and queue.qsize()):
                    await queue.put(found)
    except Exception as error:  # noqa: BLE001 # raised again in _drain
        await queue.put(error)


async def _drain(
    queue: asyncio.Queue[ListenerEvent | BaseException],
) -> AsyncGenerator[ListenerEvent, None]:
    while True:
        found = await queue.get()
        if isinstance(found, BaseException):
            raise found
        yield found
        if isinstance(found, EndOfAudio):
            return
