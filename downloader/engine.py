"""What the downloader needs from a fetcher, free of gRPC and of yt-dlp."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol


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


@dataclass(frozen=True, slots=True)
class Done:
    """Every byte was given out; always the last event."""

    size_bytes: int


Event = Found | Chunk | Moved | Done


@dataclass(frozen=True, slots=True)
class Removed:
    """What a purge took away, or would take."""

    files: int
    bytes: int


class FetchEngine(Protocol):
    """Anything that turns an address into the bytes behind it."""

    def fetch(self, source_url: str, limits: Limits) -> AsyncGenerator[Event, None]:
        """Yields Found, then Chunk and Moved, then Done; closing it stops the download at once."""
        ...

    def purge(self, *, dry_run: bool) -> Removed:
        """Removes what no running download needs."""
        ...
