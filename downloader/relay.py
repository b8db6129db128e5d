"""From what a child says to what the engine tells."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from datetime import timedelta
from time import perf_counter
from typing import Any

from structlog import get_logger

from downloader.engine import CaptionEvent, Chunk, Cue, Done, Event, Moved, Read, Track
from downloader.facts import found_in
from downloader.nursery import Child
from downloader.reasons import Failure, to_error
from mesh.errors import MeshError, UnavailableError
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason

log = get_logger(__name__)

REPORT_SECONDS = 0.1
SPEED_SECONDS = 2.0


async def relay(child: Child) -> AsyncGenerator[Event, None]:
    """A recording as it arrives: see FetchEngine.fetch."""
    first = await child.hear()
    if first.pop("kind", "") != "found":
        raise _failure(first)
    yield found_in(first)
    ending = asyncio.ensure_future(child.hear())
    try:
        meter = Meter()
        while data := await child.media.read(MAX_FRAME_BYTES):
            yield Chunk(data)
            if moved := meter.count(len(data), child.total):
                yield moved
        last = await ending
    finally:
        ending.cancel()
    if last.pop("kind", "") != "done":
        raise _failure(last)
    if last["size"] != meter.done:
        raise UnavailableError(
            f"{last['size']} bytes were fetched, but {meter.done} arrived", reason=Reason.INTERNAL
        )
    yield meter.moved(meter.done)
    yield Done(meter.done)


async def listen(child: Child, *kinds: str) -> AsyncGenerator[dict[str, Any], None]:
    """Every word of these kinds until the child is done."""
    while True:
        word = await child.hear()
        kind = word.get("kind")
        if kind in kinds:
            yield word
        elif kind != "done":
            raise _failure(word)
        if kind == "done":
            return


def caption_event(word: dict[str, Any]) -> CaptionEvent:
    """What a child says about captions."""
    match word.pop("kind"):
        case "found":
            return found_in(word)
        case "track":
            return Track(word["language"], word["name"])
        case "cue":
            start, end = timedelta(seconds=word["start"]), timedelta(seconds=word["end"])
            return Cue(start, end, word["text"], word["language"])
    return Read(word["found"], word["count"])


def _failure(word: dict[str, Any]) -> MeshError:
    if not word:
        return UnavailableError("the download died without a word", reason=Reason.INTERNAL)
    failure = Failure(
        message=word["message"],
        kinds=tuple(word.get("kinds", ())),
        status=word.get("status"),
        verdict=word.get("verdict", ""),
        retry_after=word.get("retry_after"),
    )
    error = to_error(failure)
    log.info(
        "download failed",
        reason=error.reason,
        said=failure.message,
        kinds=failure.kinds,
        status=failure.status,
    )
    return error


class Meter:
    """Counts bytes, and says how it goes at most ten times a second."""

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        self.done = 0
        self._now = now
        self._marks = deque([(now(), 0)])
        self._told = now()

    def count(self, size: int, total: int | None) -> Moved | None:
        """Takes in what arrived; a report if one is due."""
        self.done += size
        now = self._now()
        if now - self._told < REPORT_SECONDS:
            return None
        self._told = now
        self._marks.append((now, self.done))
        while len(self._marks) > 2 and now - self._marks[0][0] > SPEED_SECONDS:
            self._marks.popleft()
        return self.moved(total)

    def moved(self, total: int | None) -> Moved:
        """How it stands; the speed is that of the last two seconds or so."""
        began, before = self._marks[0]
        elapsed = self._now() - began
        speed = (self.done - before) / elapsed if elapsed > 0 else None
        return Moved(self.done, total, speed)
