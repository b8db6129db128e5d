"""Moves bytes into and out of a line of processes at the pace of whoever takes its events."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from time import monotonic
from typing import Any

from mesh.errors import LimitExceededError, TimedOutError
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason
from normalizer.engine import Event, Finished, Kept, Progress, Samples, length_of
from normalizer.line import Line
from normalizer.report import Report, failure, later_failure, warnings
from normalizer.timeline import Blocks, Timeline, framed

_QUEUED_EVENTS = 8
_PROGRESS_SECONDS = 0.1
_ROUNDING = timedelta(seconds=1)
_KEPT_BYTES_PER_SECOND = 64 * 1024
"""Several times what our encoder writes: a kept file is never larger than its length explains."""


class _End(Enum):
    """One output is complete."""

    OUTPUT = auto()


@dataclass(frozen=True, slots=True)
class _Broken:
    error: Exception


class Pump:
    """Both outputs go through one short queue: a caller who stops reading stops ffmpeg."""

    def __init__(
        self,
        line: Line,
        chunks: AsyncIterator[bytes] | None,
        report: Report,
        longest: timedelta,
        stall_seconds: float,
    ) -> None:
        self._line = line
        self._chunks = chunks
        self._longest = longest
        self._stall_seconds = stall_seconds
        self._report = report
        self._later = [Report() for _ in line.children[1:]]
        self._queue: asyncio.Queue[Samples | Kept | _End | _Broken] = asyncio.Queue(_QUEUED_EVENTS)
        self._moved = monotonic()
        self._sample_bytes = 0
        self._kept_bytes = 0

    async def events(self) -> AsyncGenerator[Event, None]:
        """Everything after Started; every pipe is served at once, or ffmpeg would stand still."""
        listening = [
            asyncio.ensure_future(_listen(child.stderr, report))
            for child, report in zip(self._line.children, [self._report, *self._later], strict=True)
        ]
        feeding = asyncio.ensure_future(self._guarded(self._feed()))
        reading = [asyncio.ensure_future(self._guarded(read)) for read in self._outputs()]
        try:
            async with aclosing(self._outcome(outputs=len(reading))) as outcome:
                async for event in outcome:
                    yield event
            await asyncio.gather(*listening)
            exit_code, *later_codes = [await c.process.wait() for c in self._line.children]
            duration = length_of(self._sample_bytes)
            for report, code in zip(self._later, later_codes, strict=True):
                if error := later_failure(report, code):
                    raise error
            if error := failure(self._report, exit_code, duration):
                raise error
            await self._finish_feeding(feeding)
            yield self._progress()
            yield Finished(duration, self._kept_bytes, warnings(self._report, exit_code, duration))
        finally:
            tasks = [*listening, feeding, *reading]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _outputs(self) -> list[Coroutine[Any, Any, None]]:
        samples, kept = self._line.last.stdout, self._line.last.kept
        assert samples is not None  # noqa: S101 # the last in the line writes to us
        return [self._read_samples(samples)] + ([] if kept is None else [self._read_kept(kept)])

    async def _outcome(self, outputs: int) -> AsyncGenerator[Event, None]:
        told = monotonic()
        while outputs:
            item = await self._next()
            match item:
                case _Broken(error):
                    raise error
                case _End():
                    outputs -= 1
                case Kept(data):
                    self._count_kept(data)
                    yield item
                case Samples(data):
                    self._count(data)
                    yield item
                    if monotonic() - told >= _PROGRESS_SECONDS:
                        told = monotonic()
                        yield self._progress()

    def _progress(self) -> Progress:
        done, total = length_of(self._sample_bytes), self._report.total
        if total is not None and done > total:
            # Headers round; one that is further off is of no use.
            total = done if done - total < _ROUNDING else None
        return Progress(done, total)

    async def _next(self) -> Samples | Kept | _End | _Broken:
        self._moved = monotonic()  # what the caller did in between was not our waiting
        while True:
            patience = self._moved + self._stall_seconds - monotonic()
            try:
                async with asyncio.timeout(patience):
                    return await self._queue.get()
            except TimeoutError as error:
                if monotonic() - self._moved >= self._stall_seconds:
                    raise TimedOutError("ffmpeg stands still", reason=Reason.STALLED) from error

    def _count(self, samples: bytes) -> None:
        self._sample_bytes += len(samples)
        if length_of(self._sample_bytes) > self._longest:
            raise LimitExceededError(
                f"the recording is longer than {self._longest.total_seconds():g} s",
                reason=Reason.TOO_LONG,
            )

    def _count_kept(self, data: bytes) -> None:
        self._kept_bytes += len(data)
        most = _KEPT_BYTES_PER_SECOND * (self._longest + _ROUNDING).total_seconds()
        if self._kept_bytes > most:
            raise LimitExceededError(
                f"the kept audio would have more than {most:.0f} bytes", reason=Reason.TOO_LARGE
            )

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Carries a failure to whoever takes the events."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 # raised again in _outcome
            await self._queue.put(_Broken(error))

    async def _feed(self) -> None:
        stdin, chunks = self._line.first.stdin, self._chunks
        if stdin is None or chunks is None:
            return
        wanted = True
        async for chunk in chunks:
            self._moved = monotonic()
            # Once ffmpeg has heard enough, the rest is only taken off the wire.
            wanted = wanted and await _written(stdin, chunk)
        stdin.close()

    async def _finish_feeding(self, feeding: "asyncio.Future[None]") -> None:
        """The caller may still be sending what ffmpeg did not need; its frames must be good too."""
        await feeding
        if not self._queue.empty() and isinstance(left := self._queue.get_nowait(), _Broken):
            raise left.error

    async def _read_samples(self, samples: asyncio.StreamReader) -> None:
        blocks, timeline = Blocks(), Timeline()
        while data := await samples.read(MAX_FRAME_BYTES):
            pieces = (piece for block in blocks.feed(data) for piece in timeline.place(*block))
            for frame in framed(pieces):
                await self._queue.put(Samples(frame))
        await self._queue.put(_End.OUTPUT)

    async def _read_kept(self, kept: asyncio.StreamReader) -> None:
        while data := await kept.read(MAX_FRAME_BYTES):
            await self._queue.put(Kept(data))
        await self._queue.put(_End.OUTPUT)


async def _listen(stderr: asyncio.StreamReader, report: Report) -> None:
    while data := await stderr.read(MAX_FRAME_BYTES):
        report.feed(data)


async def _written(stdin: asyncio.StreamWriter, chunk: bytes) -> bool:
    """Whether ffmpeg still takes bytes."""
    try:
        stdin.write(chunk)
        await stdin.drain()
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True
