"""The engine that runs a real ffmpeg: one process per recording, in one pass.

Only where a voice is isolated there are two, with the isolator between them.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

from mesh.errors import InvalidRequestError, TimedOutError, UnusableMediaError
from mesh.reasons import Reason
from normalizer.abilities import Abilities
from normalizer.announced import ENOUGH, announced
from normalizer.child import Ceiling, Program
from normalizer.command import (
    KEPT_MEDIA_TYPE,
    PIPE,
    arguments,
    decoding,
    environment,
    finishing,
)
from normalizer.engine import Capability, Event, Request, Started
from normalizer.filters import Plan, plan
from normalizer.isolation import Isolation, isolating
from normalizer.line import connected
from normalizer.pump import Pump
from normalizer.report import Report
from normalizer.sniff import Layout, has_signature, layout
from normalizer.spool import Spool


@dataclass(frozen=True, slots=True)
class Limits:
    """What one recording may cost."""

    max_duration: timedelta
    stall_seconds: float
    ceiling: Ceiling
    """Of each process."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Where ffmpeg reads from, and what still has to be fed to it."""

    name: str
    chunks: AsyncIterator[bytes] | None
    report: Report
    """Primed with what the first bytes tell."""


class FfmpegNormalizer:
    """Turns media into samples while its bytes arrive."""

    def __init__(
        self, abilities: Abilities, limits: Limits, spool: Spool, max_recordings: int
    ) -> None:
        self._abilities = abilities
        self._limits = limits
        self._spool = spool
        self._slots = asyncio.Semaphore(max_recordings)

    async def capabilities(self) -> tuple[Capability, ...]:
        """See NormalizerEngine."""
        return await self._abilities.all()

    async def normalize(
        self, chunks: AsyncIterator[bytes], request: Request
    ) -> AsyncGenerator[Event, None]:
        """See NormalizerEngine."""
        longest = self._longest(request)
        wanted = request.options.isolate_vocals
        isolation = await self._abilities.isolation() if wanted else None
        graph = plan(request, isolation)
        ffmpeg = await self._abilities.ffmpeg()
        async with self._slots:
            yield Started(graph.filters, KEPT_MEDIA_TYPE if request.keep_audio else "")
            async with self._source(chunks) as source:
                programs = _programs(ffmpeg, source.name, graph, request, isolation)
                run = self._run(programs, source, request, longest)
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
        self, programs: list[Program], source: _Source, request: Request, longest: timedelta
    ) -> AsyncGenerator[Event, None]:
        async with connected(
            programs,
            self._limits.ceiling,
            feed=source.chunks is not None,
            keep=request.keep_audio,
        ) as line:
            pump = Pump(line, source.chunks, source.report, longest, self._limits.stall_seconds)
            async with aclosing(pump.events()) as events:
                async for event in events:
                    yield event


def _programs(
    ffmpeg: str, source: str, graph: Plan, request: Request, isolation: Isolation | None
) -> list[Program]:
    options = request.options
    if isolation is None:
        return [_ffmpeg(lambda kept: [ffmpeg, *arguments(source, graph, options, kept)])]
    rate = isolation.rate
    return [
        _ffmpeg(lambda _: [ffmpeg, *decoding(source, graph)]),
        isolating(isolation.engine),
        _ffmpeg(lambda kept: [ffmpeg, *finishing(rate, graph, options, kept)]),
    ]


def _ffmpeg(command: Callable[[int | None], list[str]]) -> Program:
    return Program(command, environment())


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
