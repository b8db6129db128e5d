"""The engine: yt-dlp in a child process, its media as a stream."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from downloader.admission import check_address, grant
from downloader.engine import CaptionEvent, Event, Limits, Removed, Search, Video, Wishes
from downloader.facts import found_in
from downloader.nursery import born
from downloader.order import CaptionsOrder, FetchOrder, ListOrder, Manner
from downloader.relay import caption_event, listen, relay
from downloader.scratch import Scratch
from mesh.errors import InvalidRequestError, LimitExceededError
from mesh.period import wanted_days
from mesh.reasons import Reason


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most the service does for anybody."""

    max_downloads: int = 4
    """At once; as many lookups besides."""

    max_videos: int = 1000
    max_entries: int = 10_000
    max_spool_bytes: int = 2 * 1024**3
    allow_caller_proxy: bool = False


class YtDlpEngine:
    """Fetches whatever yt-dlp knows, a few at a time."""

    def __init__(self, manner: Manner, scratch: Scratch, bounds: Bounds) -> None:
        self._manner = manner
        self._scratch = scratch
        self._bounds = bounds
        self._downloads = asyncio.Semaphore(bounds.max_downloads)
        # Apart: a list that is read slowly must not hold up a download.
        self._lookups = asyncio.Semaphore(bounds.max_downloads)

    async def fetch(
        self, source_url: str, limits: Limits, wishes: Wishes
    ) -> AsyncGenerator[Event, None]:
        """See FetchEngine."""
        check_address(source_url)
        manner = self._granted(wishes)
        async with self._downloads:
            with self._scratch.folder() as folder:
                order = FetchOrder(
                    source_url,
                    str(folder),
                    manner,
                    limits.max_bytes,
                    limits.max_duration.total_seconds(),
                    self._bounds.max_spool_bytes,
                )
                async with born(order) as child, aclosing(relay(child)) as events:
                    async for event in events:
                        yield event

    async def resolve(self, search: Search, wishes: Wishes) -> AsyncGenerator[Video, None]:
        """See FetchEngine."""
        check_address(search.source_url, searches=True)
        days = wanted_days(search.from_date, search.to_date, search.period)
        manner, most = self._granted(wishes), self._bounds.max_videos
        async with self._lookups:
            with self._scratch.folder() as folder:
                order = ListOrder(
                    search.source_url,
                    str(folder),
                    manner,
                    # One more than we give shows that there are more.
                    min(search.max_videos or most + 1, most + 1),
                    self._bounds.max_entries,
                    days.first,
                    days.last,
                )
                async with born(order) as child, aclosing(listen(child, "video")) as words:
                    given = 0
                    async for word in words:
                        if given == most:
                            raise LimitExceededError(
                                f"the list has more than the {most} recordings allowed",
                                reason=Reason.TOO_LARGE,
                            )
                        yield Video(word["source_url"], found_in(word["media"]))
                        given += 1

    async def captions(
        self, source_url: str, languages: tuple[str, ...], limits: Limits, wishes: Wishes
    ) -> AsyncGenerator[CaptionEvent, None]:
        """See FetchEngine."""
        check_address(source_url)
        manner = self._granted(wishes)
        async with self._lookups:
            with self._scratch.folder() as folder:
                seconds = limits.max_duration.total_seconds()
                order = CaptionsOrder(source_url, str(folder), manner, languages, seconds)
                kinds = ("found", "track", "cue", "done")
                async with born(order) as child, aclosing(listen(child, *kinds)) as words:
                    async for word in words:
                        yield caption_event(word)

    def purge(self, *, dry_run: bool) -> Removed:
        """See FetchEngine."""
        return self._scratch.purge(dry_run=dry_run)

    def _granted(self, wishes: Wishes) -> Manner:
        if wishes.proxy and not self._bounds.allow_caller_proxy:
            raise InvalidRequestError(
                "this service does not let callers choose a proxy", reason=Reason.REQUEST_INVALID
            )
        return grant(self._manner, wishes)
