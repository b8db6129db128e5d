"""What the downloader needs from a fetcher, free of gRPC and of yt-dlp."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

LONGEST_REMAINING_SECONDS = 10**8


@dataclass(frozen=True, slots=True)
class Limits:
    """The most one recording may take."""

    max_bytes: int
    max_duration: timedelta

    def within(self, ceiling: "Limits") -> "Limits":
        """These limits, but never above the ceiling."""
        return Limits(
            max_bytes=min(self.max_bytes, ceiling.max_bytes),
            max_duration=min(self.max_duration, ceiling.max_duration),
        )


@dataclass(frozen=True, slots=True)
class Wishes:
    """How one caller wants a site to be asked; within what the operator allows."""

    user_agent: str = ""
    max_bytes_per_second: int = 0
    request_interval: timedelta = timedelta(0)
    proxy: str = ""


@dataclass(frozen=True, slots=True)
class Search:
    """Which recordings behind an address are wanted."""

    source_url: str
    max_videos: int = 0
    """0: as many as the operator allows."""

    from_date: str = ""
    to_date: str = ""
    period: str = ""


@dataclass(frozen=True, slots=True)
class Chapter:
    """One named part of a recording."""

    start: timedelta
    end: timedelta
    title: str


@dataclass(frozen=True, slots=True)
class Found:
    """What the source says about itself; always the first event."""

    media_id: str = ""
    title: str = ""
    uploader: str = ""
    duration: timedelta | None = None
    upload_date: str = ""
    thumbnail_url: str = ""
    webpage_url: str = ""
    extractor: str = ""
    chapters: tuple[Chapter, ...] = ()
    container: str = ""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The next bytes of the file, at most 64 KiB."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Moved:
    """How far the bytes have come."""

    done_bytes: int
    total_bytes: int | None
    bytes_per_second: float | None

    @property
    def remaining(self) -> timedelta | None:
        """Time left at this speed."""
        if self.total_bytes is None or not self.bytes_per_second:
            return None
        left = max(self.total_bytes - self.done_bytes, 0) / self.bytes_per_second
        return timedelta(seconds=min(left, LONGEST_REMAINING_SECONDS))


@dataclass(frozen=True, slots=True)
class Done:
    """Every byte was given out; always the last event."""

    size_bytes: int


Event = Found | Chunk | Moved | Done


@dataclass(frozen=True, slots=True)
class Video:
    """One recording behind an address."""

    source_url: str
    media: Found


@dataclass(frozen=True, slots=True)
class Track:
    """Captions that were chosen."""

    language: str
    name: str


@dataclass(frozen=True, slots=True)
class Cue:
    """One caption."""

    start: timedelta
    end: timedelta
    text: str
    language: str


@dataclass(frozen=True, slots=True)
class Read:
    """The search for captions is over; always the last event."""

    found: bool
    cues: int


CaptionEvent = Found | Track | Cue | Read


@dataclass(frozen=True, slots=True)
class Removed:
    """What a purge took away, or would take."""

    files: int
    bytes: int


class FetchEngine(Protocol):
    """Anything that turns an address into the bytes behind it."""

    def fetch(self, source_url: str, limits: Limits, wishes: Wishes) -> AsyncGenerator[Event, None]:
        """Yields Found, then Chunk and Moved, then Done; closing it stops the download at once."""
        ...

    def resolve(self, search: Search, wishes: Wishes) -> AsyncGenerator[Video, None]:
        """Yields each recording behind the address as it is found; none of them is fetched."""
        ...

    def captions(
        self, source_url: str, languages: tuple[str, ...], limits: Limits, wishes: Wishes
    ) -> AsyncGenerator[CaptionEvent, None]:
        """Yields Found, then Track and each Cue if a human made any, then Read."""
        ...

    def purge(self, *, dry_run: bool) -> Removed:
        """Removes what no running download needs."""
        ...
