"""The engine that runs a real ffmpeg: one process per recording, in one pass."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from mesh.errors import InvalidRequestError, TimedOutError, UnusableMediaError
from mesh.reasons import Reason
from normalizer.announced import ENOUGH, announced
from normalizer.child import running
from normalizer.command import KEPT_MEDIA_TYPE, PIPE, arguments, locate
from normalizer.engine import Event, Request, Started
from normalizer.filters import Plan, plan
from normalizer.pump import Pump
from normalizer.report import Report
from normalizer.sniff import Layout, has_signature, layout
from normalizer.spool import Spool


@dataclass(frozen=True, slots=True)
class Limits:
    """What one recording may cost."""

    max_duration: timedelta
    stall_seconds: float
    max_memory: int


@dataclass(frozen=True, slots=True)
class _Source:
    """Where ffmpeg reads from, and what still has to be fed to it."""

    name: str
    chunks: AsyncIterator[bytes] | None
    report: Report
    """Primed with what the first bytes tell."""


class FfmpegNormalizer:
    """Turns media into samples while its bytes arrive."""

    def __init__(self, ffmpeg: str, limits: Limits, spool: Spool, max_recordings: int) -> None:
        self._ffmpeg = ffmpeg
        self._limits = limits
        self._spool = spool
        self._slots = asyncio.Semaphore(max_recordings)

    async def check(self) -> str:
        """Path of the ffmpeg in use; fails if there is none."""
        return await asyncio.to_thread(locate, self._ffmpeg)

    async def normalize(
        self, chunks: AsyncIterator[bytes], request: Request
    ) -> AsyncGenerator[Event, None]:
        """See NormalizerEngine."""
        longest = self._longest(request)
        graph = plan(request)
        ffmpeg = await self.check()
        async with self._slots:
            yield Started(graph.filters, KEPT_MEDIA_TYPE if request.keep_audio else "")
            async with self._source(chunks) as source:
                run = self._run(ffmpeg, source, graph, request, longest)
                async with aclosing(run) as events:
                    async for event in events:
                        yield event

    def _longest(self, request: Request) -> timedelta:
        if request.max_duration is None:
            return self._limits.max_duration
        if request.max_duration <= timedelta(0):
            raise InvalidRequestError(
                "max_duration must be more than nothing", reason=Reason.REQUEST_INVALID
            )
        return min(request.max_duration, self._limits.max_duration)

    @asynccontextmanager
    async def _source(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[_Source]:
        patient = self._patient(chunks)
        head, found = await _read_head(patient)
        whole = _joined(head, patient)
        report = Report(recognised=has_signature(head), total=announced(head))
        if found is Layout.INDEX_LAST:
            async with self._spool.filled(whole) as path:
                yield _Source(str(path), None, report)
        else:
            yield _Source(PIPE, whole, report)

    async def _patient(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same chunks, but no waiting for ever for the next."""
        seconds = self._limits.stall_seconds
        while True:
            try:
                async with asyncio.timeout(seconds):
                    chunk = await anext(chunks, None)
            except TimeoutError as error:
                raise TimedOutError(
                    f"no media arrived for {seconds:g} s", reason=Reason.STALLED
                ) from error
            if chunk is None:
                return
            yield chunk

    async def _run(
        self, ffmpeg: str, source: _Source, graph: Plan, request: Request, longest: timedelta
    ) -> AsyncGenerator[Event, None]:
        def command(kept_fd: int | None) -> list[str]:
            return [ffmpeg, *arguments(source.name, graph, request.options, kept_fd)]

        async with running(
            command,
            feed=source.chunks is not None,
            keep=request.keep_audio,
            max_memory=self._limits.max_memory,
        ) as child:
            pump = Pump(child, source.chunks, source.report, longest, self._limits.stall_seconds)
            async with aclosing(pump.events()) as events:
                async for event in events:
                    yield event


async def _read_head(chunks: AsyncIterator[bytes]) -> tuple[bytes, Layout]:
    head = bytearray()
    async for chunk in chunks:
        head += chunk
        found = layout(head)
        if found is not Layout.UNKNOWN and len(head) >= ENOUGH:
            return bytes(head), found
    if not head:
        raise UnusableMediaError("no media arrived", reason=Reason.EMPTY_MEDIA)
    return bytes(head), layout(head)


async def _joined(head: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield head
    async for chunk in rest:
        yield chunk
