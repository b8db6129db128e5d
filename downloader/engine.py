"""Requests and events of the download engine; free of gRPC and of yt-dlp."""

from dataclasses import dataclass
from datetime import timedelta

MAX_REMAINING_SECONDS = 10**8


@dataclass(frozen=True, slots=True)
class MediaLimits:
    """The largest and longest recording a request may download."""

    max_bytes: int
    max_duration: timedelta

    def within(self, ceiling: "MediaLimits") -> "MediaLimits":
        """These limits, but never above the ceiling."""
        return MediaLimits(
            max_bytes=min(self.max_bytes, ceiling.max_bytes),
            max_duration=min(self.max_duration, ceiling.max_duration),
        )


@dataclass(frozen=True, slots=True)
class DownloadOptions:
    """A caller's options for talking to the site; the operator's limits apply."""

    user_agent: str = ""
    max_bytes_per_second: int = 0
    request_interval: timedelta = timedelta(0)
    proxy: str = ""


@dataclass(frozen=True, slots=True)
class Chapter:
    """One named part of a recording."""

    start_offset: timedelta
    end_offset: timedelta
    title: str


@dataclass(frozen=True, slots=True)
class MediaInfo:
    """The source's metadata; always the first event."""

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
class ByteProgress:
    """How many bytes have arrived, and how fast."""

    done_bytes: int
    total_bytes: int | None
    bytes_per_second: float | None

    @property
    def remaining(self) -> timedelta | None:
        """Time left at this speed."""
        if self.total_bytes is None or not self.bytes_per_second:
            return None
        left = max(self.total_bytes - self.done_bytes, 0) / self.bytes_per_second
        return timedelta(seconds=min(left, MAX_REMAINING_SECONDS))


@dataclass(frozen=True, slots=True)
class DownloadFinished:
    """Every byte was sent; always the last event."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """All slots are taken."""


DownloadEvent = Waiting | MediaInfo | bytes | ByteProgress | DownloadFinished
"""Bytes are the next ones of the file, at most 64 KiB."""


@dataclass(frozen=True, slots=True)
class CaptionTrack:
    """The caption track that was chosen."""

    language: str
    name: str


@dataclass(frozen=True, slots=True)
class Cue:
    """One caption."""

    start_offset: timedelta
    end_offset: timedelta
    text: str
    language: str


@dataclass(frozen=True, slots=True)
class CaptionsFinished:
    """No more captions follow; always the last event."""

    found: bool
    segments: int


CaptionEvent = Waiting | MediaInfo | CaptionTrack | Cue | CaptionsFinished
