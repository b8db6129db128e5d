"""The engine: yt-dlp in a child process, its media as a stream."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

from structlog import get_logger

from downloader.engine import Chunk, Done, Event, Limits, Moved, Removed
from downloader.facts import found_in
from downloader.nursery import Child, born
from downloader.order import Order
from downloader.reasons import Failure, to_error
from downloader.scratch import Scratch
from mesh.errors import InvalidRequestError, MeshError, UnavailableError
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason

log = get_logger(__name__)

REPORT_SECONDS = 0.1
SPEED_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Manner:
    """How to fetch, whatever is fetched."""

    socket_timeout_seconds: float
    proxy: str = ""
    cookies_file: str = ""
    allow_private_addresses: bool = False
    exempt_addresses: tuple[str, ...] = ()
    """Addresses that are reached although they are not public; to test what lies behind them."""


class YtDlpEngine:
    """Fetches whatever yt-dlp knows, a few at a time."""

    def __init__(self, manner: Manner, scratch: Scratch, max_downloads: int) -> None:
        self._manner = manner
        self._scratch = scratch
        self._slots = asyncio.Semaphore(max_downloads)

    async def fetch(self, source_url: str, limits: Limits) -> AsyncGenerator[Event, None]:
        """See FetchEngine."""
        check_address(source_url)
        async with self._slots:
            with self._scratch.folder() as folder:
                order = self._order(source_url, limits, str(folder))
                async with born(order) as child, aclosing(_relay(child)) as events:
                    async for event in events:
                        yield event

    def purge(self, *, dry_run: bool) -> Removed:
        """See FetchEngine."""
        return self._scratch.purge(dry_run=dry_run)

    def _order(self, source_url: str, limits: Limits, folder: str) -> Order:
        return Order(
            source_url=source_url,
            folder=folder,
            max_bytes=limits.max_bytes,
            max_seconds=limits.max_duration.total_seconds(),
            socket_timeout=self._manner.socket_timeout_seconds,
            proxy=self._manner.proxy,
            cookies_file=self._manner.cookies_file,
            allow_private=self._manner.allow_private_addresses,
            exempt=self._manner.exempt_addresses,
        )


def check_address(source_url: str) -> None:
    """Refuses what can never be fetched, before anything is started for it."""
    try:
        parts = urlsplit(source_url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits or any(letter.isspace() or not letter.isprintable() for letter in source_url):
        raise InvalidRequestError(
            "the source must be an http or https address", reason=Reason.UNSUPPORTED_URL
        )


async def _relay(child: Child) -> AsyncGenerator[Event, None]:
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


def _failure(word: dict[str, Any]) -> MeshError:
    if not word:
        return UnavailableError("the download died without a word", reason=Reason.INTERNAL)
    failure = Failure(
        message=word["message"],
        kinds=tuple(word.get("kinds", ())),
        status=word.get("status"),
        verdict=word.get("verdict", ""),
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
