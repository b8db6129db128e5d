"""The yt-dlp engine: each request runs in a child process of its own, a few at a time."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from downloader.admission import check_address, grant
from downloader.commands import (
    CaptionsCommand,
    ClientOptions,
    Command,
    DownloadCommand,
    ResolveCommand,
)
from downloader.engine import (
    CaptionEvent,
    DownloadEvent,
    DownloadOptions,
    MediaInfo,
    MediaLimits,
    Waiting,
)
from downloader.fork_server import ChildProcess, running_child
from downloader.metadata import from_json
from downloader.relay import caption_event, download_events, messages
from mesh.errors import InvalidRequestError, LimitExceededError
from mesh.period import Days
from mesh.reasons import Reason
from mesh.scratch import Scratch
from mesh.slots import Slot, in_slot


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """What the operator allows each request and all of them together."""

    max_downloads: int = 16
    """Concurrent downloads; lookups have as many slots of their own."""

    max_videos: int = 1000
    max_entries: int = 10_000
    max_spool_bytes: int = 2 * 1024**3
    allow_caller_proxy: bool = False


class YtDlpEngine:
    """Downloads recordings, lists them, and finds their captions."""

    def __init__(
        self, client_options: ClientOptions, scratch: Scratch, limits: ServiceLimits
    ) -> None:
        self._client_options = client_options
        self.scratch = scratch
        self._limits = limits
        self._downloads = asyncio.Semaphore(limits.max_downloads)
        # Separate: a slow listing must not delay a download.
        self._lookups = asyncio.Semaphore(limits.max_downloads)

    def download(
        self, source_url: str, limits: MediaLimits, options: DownloadOptions
    ) -> AsyncGenerator[DownloadEvent, None]:
        """Yields MediaInfo, then bytes and ByteProgress, then DownloadFinished.

        Closing the generator stops the download at once.
        """
        work = partial(self._download, source_url, limits, options)
        return in_slot(self._downloads, work, Waiting())

    async def _download(
        self, source_url: str, limits: MediaLimits, options: DownloadOptions, slot: Slot
    ) -> AsyncGenerator[DownloadEvent, None]:
        check_address(source_url)
        command = DownloadCommand(
            source_url,
            self._granted(options),
            limits.max_bytes,
            limits.max_duration.total_seconds(),
            self._limits.max_spool_bytes,
        )
        await slot.take()
        async with (
            self._child(command) as child,
            aclosing(download_events(child)) as events,
        ):
            async for event in events:
                yield event

    async def resolve(
        self, source_url: str, days: Days, max_videos: int, options: DownloadOptions
    ) -> AsyncGenerator[tuple[str, MediaInfo], None]:
        """Yields address and metadata of each recording as it is found; fetches none of them.

        With `max_videos` 0 it finds as many as the operator allows.
        """
        check_address(source_url, searches=True)
        most = self._limits.max_videos
        command = ResolveCommand(
            source_url,
            self._granted(options),
            # One more than the limit shows that the list exceeds it.
            min(max_videos or most + 1, most + 1),
            self._limits.max_entries,
            days.first,
            days.last,
        )
        count = 0
        async with (
            self._lookups,
            self._child(command) as child,
            aclosing(messages(child, "video")) as videos,
        ):
            async for message in videos:
                if count == most:
                    raise LimitExceededError(
                        f"the list has more than the {most} recordings allowed",
                        reason=Reason.TOO_LARGE,
                    )
                yield message["source_url"], from_json(message["media"])
                count += 1

    def fetch_captions(
        self,
        source_url: str,
        languages: tuple[str, ...],
        limits: MediaLimits,
        options: DownloadOptions,
    ) -> AsyncGenerator[CaptionEvent, None]:
        """Yields MediaInfo, then CaptionsFinished; between them, if there are human-made captions,
        CaptionTrack and each Cue."""
        work = partial(self._fetch_captions, source_url, languages, limits, options)
        return in_slot(self._lookups, work, Waiting())

    async def _fetch_captions(
        self,
        source_url: str,
        languages: tuple[str, ...],
        limits: MediaLimits,
        options: DownloadOptions,
        slot: Slot,
    ) -> AsyncGenerator[CaptionEvent, None]:
        check_address(source_url)
        seconds = limits.max_duration.total_seconds()
        command = CaptionsCommand(source_url, self._granted(options), languages, seconds)
        kinds = ("found", "track", "cue", "done")
        await slot.take()
        async with (
            self._child(command) as child,
            aclosing(messages(child, *kinds)) as found,
        ):
            async for message in found:
                yield caption_event(message)

    @asynccontextmanager
    async def _child(self, command: Command) -> AsyncIterator[ChildProcess]:
        """A child that runs the command in a scratch folder."""
        with self.scratch.folder() as folder:
            async with running_child(replace(command, folder=str(folder))) as child:
                yield child

    def _granted(self, options: DownloadOptions) -> ClientOptions:
        if options.proxy and not self._limits.allow_caller_proxy:
            raise InvalidRequestError("this service does not let callers choose a proxy")
        return grant(self._client_options, options)
