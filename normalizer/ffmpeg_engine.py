"""The ffmpeg engine: one ffmpeg process per recording, in one pass.

Voice isolation takes three: ffmpeg, the isolator, and another ffmpeg.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeAlias

from mesh.errors import InvalidRequestError, TimedOutError, UnusableMediaError
from mesh.frames import joined
from mesh.reasons import Reason
from mesh.slots import Slot, in_slot
from normalizer.capabilities import CapabilityProbe, worker_program
from normalizer.engine import Event, IsolatorInfo, Request, Started, Waiting
from normalizer.ffmpeg_command import (
    KEPT_MEDIA_TYPE,
    PIPE,
    before_isolation,
    environment,
    isolated,
    media,
    outputs,
)
from normalizer.ffmpeg_log import FfmpegLog
from normalizer.filters import FilterGraph, filter_graph
from normalizer.media_header import DURATION_BYTES, Layout, has_signature, header_duration, layout
from normalizer.processes import ProcessLimits, Program, running_pipeline
from normalizer.pump import Pump
from normalizer.spool import Spool
from normalizer.timeline import Timeline


@dataclass(frozen=True, slots=True)
class RecordingLimits:
    """Limits of one recording."""

    max_duration: timedelta
    stall_seconds: float
    process: ProcessLimits
    """Limits of each process."""
    max_gap_seconds: float = 600
    """Most of all gaps between timestamps, besides as much as there is sound before them."""


_Source: TypeAlias = tuple[str, AsyncIterator[bytes] | None, FfmpegLog]
"""Where ffmpeg reads from, the chunks to feed it if that is a pipe, and a log that already holds
what the first bytes say."""


class FfmpegEngine:
    """Turns the bytes of a media file into samples and, on request, an audio file to keep."""

    def __init__(
        self,
        capabilities: CapabilityProbe,
        limits: RecordingLimits,
        spool: Spool,
        max_recordings: int,
        max_live_streams: int,
    ) -> None:
        self.capabilities = capabilities
        self._limits = limits
        self._spool = spool
        self._slots = asyncio.Semaphore(max_recordings)
        self._live_slots = asyncio.Semaphore(max_live_streams)

    def normalize(
        self, chunks: AsyncIterator[bytes], request: Request
    ) -> AsyncGenerator[Event, None]:
        """Yields Started, then the rest while `chunks` arrive; closing it stops the work.

        The call has a slot only while media flows. A live stream keeps its slot once media came:
        an idle one is ended by who receives it.
        """
        slots = self._live_slots if request.live_stream else self._slots
        return in_slot(slots, partial(self._normalize, chunks, request), Waiting())

    async def _normalize(
        self, chunks: AsyncIterator[bytes], request: Request, slot: Slot
    ) -> AsyncGenerator[Event, None]:
        max_duration = self._max_duration(request)
        isolate = request.options.isolate_vocals
        isolation = await self.capabilities.isolation() if isolate else None
        graph = filter_graph(request, isolation)
        ffmpeg = await self.capabilities.ffmpeg()
        yield Started(graph.filters, KEPT_MEDIA_TYPE if request.keep_audio else "")
        timed = self._with_timeout(chunks)
        head, found = await _read_head(timed)
        await slot.take()
        rest = timed if request.live_stream else slot.while_flowing(timed)
        async with (
            self._source(head, found, rest) as (source, fed, log),
            running_pipeline(
                self._programs(ffmpeg, source, graph, request, isolation),
                self._limits.process,
                feed=fed is not None,
                keep=request.keep_audio,
            ) as children,
        ):
            stall, timeline = self._limits.stall_seconds, Timeline(self._limits.max_gap_seconds)
            pump = Pump(children, fed, log, max_duration, stall, timeline, slot)
            async with aclosing(pump.events()) as events:
                async for event in events:
                    yield event

    def _max_duration(self, request: Request) -> timedelta:
        if request.max_duration is None:
            return self._limits.max_duration
        if request.max_duration <= timedelta(0):
            raise InvalidRequestError("max_duration must be positive")
        return min(request.max_duration, self._limits.max_duration)

    @asynccontextmanager
    async def _source(
        self, head: bytes, found: Layout, rest: AsyncIterator[bytes]
    ) -> AsyncIterator[_Source]:
        whole = joined(head, rest)
        log = FfmpegLog(recognised=has_signature(head), total=header_duration(head))
        if found is Layout.INDEX_LAST:
            async with self._spool.filled(whole) as path:
                yield str(path), None, log
        else:
            yield PIPE, whole, log

    def _programs(
        self,
        ffmpeg: str,
        source: str,
        graph: FilterGraph,
        request: Request,
        isolation: IsolatorInfo | None,
    ) -> list[Program]:
        options = request.options
        if isolation is None:
            return [_ffmpeg(lambda fd: [ffmpeg, *outputs(media(source), graph, options, fd)])]
        rate = isolation.rate
        return [
            _ffmpeg(lambda _: [ffmpeg, *before_isolation(source, graph)]),
            worker_program(isolation.engine, str(self._limits.max_gap_seconds)),
            _ffmpeg(lambda fd: [ffmpeg, *outputs(isolated(rate), graph, options, fd)]),
        ]

    async def _with_timeout(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same chunks; raises if the next one does not arrive in time."""
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


def _ffmpeg(command: Callable[[int | None], list[str]]) -> Program:
    return Program(command, environment())


async def _read_head(chunks: AsyncIterator[bytes]) -> tuple[bytes, Layout]:
    head = bytearray()
    async for chunk in chunks:
        head += chunk
        found = layout(head)
        if found is not Layout.UNKNOWN and len(head) >= DURATION_BYTES:
            return bytes(head), found
    if not head:
        raise UnusableMediaError("no media arrived", reason=Reason.EMPTY_MEDIA)
    return bytes(head), layout(head)
