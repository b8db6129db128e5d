"""Turns a child's messages and media bytes into the engine's events and errors."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from datetime import timedelta
from time import perf_counter
from typing import Any

from structlog import get_logger

from downloader.engine import (
    ByteProgress,
    CaptionEvent,
    CaptionsFinished,
    CaptionTrack,
    Cue,
    DownloadEvent,
    DownloadFinished,
)
from downloader.fork_server import ChildProcess
from downloader.metadata import from_json
from downloader.reasons import Failure, to_error
from mesh.errors import MeshError, UnavailableError
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason
from mesh.tasks import mark_retrieved

log = get_logger(__name__)

REPORT_SECONDS = 0.1
SPEED_SECONDS = 2.0


async def download_events(child: ChildProcess) -> AsyncGenerator[DownloadEvent, None]:
    """A recording as it arrives: see YtDlpEngine.download."""
    first = await child.receive()
    if first.pop("kind", "") != "found":
        raise _error(first)
    yield from_json(first)
    ending = asyncio.ensure_future(child.receive())
    ending.add_done_callback(mark_retrieved)  # a caller that leaves early never asks for it
    try:
        meter = ProgressMeter()
        while data := await child.media.read(MAX_FRAME_BYTES):
            yield data
            if progress := meter.count(len(data), child.total):
                yield progress
        last = await ending
    finally:
        ending.cancel()
    if last.pop("kind", "") != "done":
        raise _error(last)
    if last["size"] != meter.done:
        raise UnavailableError(
            f"{last['size']} bytes were fetched, but {meter.done} arrived", reason=Reason.INTERNAL
        )
    yield meter.progress(meter.done)
    yield DownloadFinished(meter.done)


async def messages(child: ChildProcess, *kinds: str) -> AsyncGenerator[dict[str, Any], None]:
    """Every message of these kinds, up to and including `done`; raises if the child failed."""
    while True:
        message = await child.receive()
        kind = message.get("kind")
        if kind in kinds:
            yield message
        elif kind != "done":
            message.pop("kind", None)
            raise _error(message)
        if kind == "done":
            return


def caption_event(message: dict[str, Any]) -> CaptionEvent:
    """The event for a message of a captions task."""
    match message.pop("kind"):
        case "found":
            return from_json(message)
        case "track":
            return CaptionTrack(message["language"], message["name"])
        case "cue":
            start, end = timedelta(seconds=message["start"]), timedelta(seconds=message["end"])
            return Cue(start, end, message["text"], message["language"])
    return CaptionsFinished(message["found"], message["count"])


def _error(fields: dict[str, Any]) -> MeshError:
    """The error for the fields of a `failed` message; no fields mean that the child died."""
    if not fields:
        return UnavailableError("the download process died", reason=Reason.INTERNAL)
    failure = Failure(**fields)
    error = to_error(failure)
    log.info(
        "download failed",
        reason=error.reason,
        error=failure.message,
        exceptions=failure.exceptions,
        status=failure.status,
    )
    return error


class ProgressMeter:
    """Counts bytes and reports progress at most ten times a second."""

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        self.done = 0
        self._now = now
        self._samples = deque([(now(), 0)])
        self._reported_at = now()

    def count(self, size: int, total: int | None) -> ByteProgress | None:
        """Adds bytes that arrived; returns a report if one is due."""
        self.done += size
        now = self._now()
        if now - self._reported_at < REPORT_SECONDS:
            return None
        self._reported_at = now
        self._samples.append((now, self.done))
        while len(self._samples) > 2 and now - self._samples[0][0] > SPEED_SECONDS:
            self._samples.popleft()
        return self.progress(total)

    def progress(self, total: int | None) -> ByteProgress:
        """Progress so far; the speed is measured over about the last two seconds."""
        began, before = self._samples[0]
        elapsed = self._now() - began
        speed = (self.done - before) / elapsed if elapsed > 0 else None
        return ByteProgress(self.done, total, speed)
