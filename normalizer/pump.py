"""Moves bytes into and out of a process pipeline, at the pace of the consumer of its events."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import aclosing
from datetime import timedelta
from time import monotonic
from typing import Any, TypeAlias

from mesh.errors import LimitExceededError, TimedOutError
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason
from mesh.slots import Slot
from normalizer.engine import Event, Finished, KeptAudio, Progress, Samples, length_of
from normalizer.ffmpeg_log import FfmpegLog, downstream_failure, failure, warnings
from normalizer.processes import ChildProcess
from normalizer.timeline import MatroskaBlocks, Timeline, framed

_QUEUED_EVENTS = 8
_PROGRESS_SECONDS = 0.1
_ROUNDING = timedelta(seconds=1)
_KEPT_BYTES_PER_SECOND = 64 * 1024
"""Several times the encoder's bitrate: bounds the kept file by the recording's duration."""


_Item: TypeAlias = Samples | KeptAudio | Exception | None
"""An event, a failure to raise, or None: one output is complete."""


class Pump:
    """Feeds a pipeline and yields its events.

    Both outputs go through one short queue, so a caller that stops reading stops ffmpeg.
    """

    def __init__(  # noqa: PLR0913 # everything one recording needs
        self,
        children: Sequence[ChildProcess],
        chunks: AsyncIterator[bytes] | None,
        log: FfmpegLog,
        max_duration: timedelta,
        stall_seconds: float,
        timeline: Timeline,
        slot: Slot,
    ) -> None:
        self._children = children
        self._chunks = chunks
        self._max_duration = max_duration
        self._stall_seconds = stall_seconds
        self._timeline = timeline
        self._slot = slot
        self._log = log
        self._logs = [log, *(FfmpegLog() for _ in children[1:])]
        self._queue: asyncio.Queue[_Item] = asyncio.Queue(_QUEUED_EVENTS)
        self._moved_at = monotonic()
        self._sample_bytes = 0
        self._kept_bytes = 0

    async def events(self) -> AsyncGenerator[Event, None]:
        """Everything after Started; serves all pipes concurrently, or ffmpeg would block."""
        listening = [
            asyncio.ensure_future(_read_log(child.stderr, log))
            for child, log in zip(self._children, self._logs, strict=True)
        ]
        feeding = asyncio.ensure_future(self._guarded(self._feed()))
        reading = [asyncio.ensure_future(self._guarded(read)) for read in self._outputs()]
        try:
            async with aclosing(self._outcome(outputs=len(reading))) as outcome:
                async for event in outcome:
                    yield event
            await asyncio.gather(*listening)
            exit_code, *later_codes = [await child.process.wait() for child in self._children]
            duration = length_of(self._sample_bytes)
            for log, code in zip(self._logs[1:], later_codes, strict=True):
                if error := downstream_failure(log, code):
                    raise error
            if error := failure(self._log, exit_code, duration):
                raise error
            await self._finish_feeding(feeding)
            yield self._progress()
            yield Finished(duration, self._kept_bytes, warnings(self._log, exit_code, duration))
        finally:
            tasks = [*listening, feeding, *reading]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _outputs(self) -> list[Coroutine[Any, Any, None]]:
        samples, kept = self._children[-1].stdout, self._children[-1].kept
        assert samples is not None  # noqa: S101 # the last process writes to a pipe
        return [self._read_samples(samples)] + ([] if kept is None else [self._read_kept(kept)])

    async def _outcome(self, outputs: int) -> AsyncGenerator[Event, None]:
        reported_at = monotonic()
        while outputs:
            item = await self._next()
            match item:
                case Exception():
                    raise item
                case None:
                    outputs -= 1
                case KeptAudio(data):
                    self._count_kept(data)
                    yield item
                case Samples(data):
                    self._count(data)
                    yield item
                    if monotonic() - reported_at >= _PROGRESS_SECONDS:
                        reported_at = monotonic()
                        yield self._progress()

    def _progress(self) -> Progress:
        done, total = length_of(self._sample_bytes), self._log.total
        if total is not None and done > total:
            # Headers round; a total that is further off is dropped.
            total = done if done - total < _ROUNDING else None
        return Progress(done, total)

    async def _next(self) -> _Item:
        self._moved_at = monotonic()  # time the caller spent on the last event does not count
        while True:
            remaining = self._moved_at + self._stall_seconds - monotonic()
            try:
                async with asyncio.timeout(remaining):
                    return await self._queue.get()
            except TimeoutError as error:
                if self._slot.waiting:
                    self._moved_at = monotonic()
                if monotonic() - self._moved_at >= self._stall_seconds:
                    raise TimedOutError(
                        f"ffmpeg made no progress for {self._stall_seconds:g} s",
                        reason=Reason.STALLED,
                    ) from error

    def _count(self, samples: bytes) -> None:
        self._sample_bytes += len(samples)
        if length_of(self._sample_bytes) > self._max_duration:
            raise LimitExceededError(
                f"the recording is longer than {self._max_duration.total_seconds():g} s",
                reason=Reason.TOO_LONG,
            )

    def _count_kept(self, data: bytes) -> None:
        self._kept_bytes += len(data)
        most = _KEPT_BYTES_PER_SECOND * (self._max_duration + _ROUNDING).total_seconds()
        if self._kept_bytes > most:
            raise LimitExceededError(
                f"the kept audio would have more than {most:.0f} bytes", reason=Reason.TOO_LARGE
            )

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Passes a failure on to the consumer of the events."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 # raised again in _outcome
            await self._queue.put(error)

    async def _feed(self) -> None:
        stdin, chunks = self._children[0].stdin, self._chunks
        if stdin is None or chunks is None:
            return
        wanted = True
        async for chunk in chunks:
            self._moved_at = monotonic()
            # Once ffmpeg has closed its input, the rest of the stream is read and discarded.
            wanted = wanted and await _write(stdin, chunk)
        stdin.close()

    async def _finish_feeding(self, feeding: "asyncio.Future[None]") -> None:
        """Waits for the rest of the caller's stream: not needed by ffmpeg, but it must be valid."""
        await feeding
        if not self._queue.empty() and isinstance(rest := self._queue.get_nowait(), Exception):
            raise rest

    async def _read_samples(self, samples: asyncio.StreamReader) -> None:
        blocks, place = MatroskaBlocks(), self._timeline.place
        while data := await samples.read(MAX_FRAME_BYTES):
            pieces = (piece for block in blocks.feed(data) for piece in place(*block))
            for frame in framed(pieces):
                await self._queue.put(Samples(frame))
        await self._queue.put(None)

    async def _read_kept(self, kept: asyncio.StreamReader) -> None:
        while data := await kept.read(MAX_FRAME_BYTES):
            await self._queue.put(KeptAudio(data))
        await self._queue.put(None)


async def _read_log(stderr: asyncio.StreamReader, log: FfmpegLog) -> None:
    while data := await stderr.read(MAX_FRAME_BYTES):
        log.feed(data)


async def _write(stdin: asyncio.StreamWriter, chunk: bytes) -> bool:
    """Writes the chunk; False once ffmpeg has closed its input."""
    try:
        stdin.write(chunk)
        await stdin.drain()
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True
