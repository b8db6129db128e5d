"""Converts yt-dlp's info dict into our metadata, as JSON between child and service.

Thousands of extractors fill that dict from untrusted pages: no field of it can be relied on.
"""

import math
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

from downloader.engine import Chapter, MediaInfo

MAX_TEXT = 1000
MAX_CHAPTERS = 500
MAX_CHAPTER_TITLE = 200


def to_json(info: dict[str, Any]) -> dict[str, Any]:
    """The metadata as JSON fields; `from_json` reads them."""
    direct = bool(info.get("direct"))
    return {
        # A plain file has no id.
        "media_id": "" if direct else text(info.get("id")),
        "upload_date": day_of(info),
        "title": text(info.get("title")),
        "uploader": text(info.get("uploader") or info.get("channel")),
        "duration": seconds(info.get("duration")),
        "thumbnail_url": text(info.get("thumbnail")),
        "webpage_url": text(info.get("webpage_url")),
        "extractor": text(info.get("extractor")),
        "container": _container(info.get("ext")),
        "chapters": _chapters(info.get("chapters")),
    }


def from_json(fields: dict[str, Any]) -> MediaInfo:
    """The metadata that `to_json` wrote."""
    duration = fields["duration"]
    chapters = tuple(
        Chapter(timedelta(seconds=start), timedelta(seconds=end), title)
        for start, end, title in fields["chapters"]
    )
    return MediaInfo(
        **{
            **fields,
            "duration": None if duration is None else timedelta(seconds=duration),
            "chapters": chapters,
        }
    )


def seconds(value: Any) -> float | None:
    """A duration in seconds, or None if the value is not one."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and 0 <= number < 10**9 else None


def day_of(info: dict[str, Any]) -> str:
    """Day of publication as YYYY-MM-DD, or "" if it is not known."""
    if info.get("direct"):  # a plain file has only the day it was last modified
        return ""
    day = _day(info.get("upload_date"))
    if not day and "timestamp" in info:
        with suppress(TypeError, ValueError, OverflowError, OSError):
            return datetime.fromtimestamp(info["timestamp"], UTC).date().isoformat()
    return day


def age_of(day: str) -> timedelta:
    """Time since that day; 0 if the day is not known."""
    return datetime.now(UTC).date() - date.fromisoformat(day) if day else timedelta(0)


def text(value: Any, max_length: int = MAX_TEXT) -> str:
    """The value as text of at most that length that UTF-8 can encode."""
    # Python strings may hold half a surrogate pair, which UTF-8 cannot.
    cut = "" if value is None else str(value)[:max_length]
    return cut.encode(errors="replace").decode()


def _day(value: Any) -> str:
    digits = text(value)
    if len(digits) == 8 and digits.isascii() and digits.isdecimal():
        with suppress(ValueError):
            return date(int(digits[:4]), int(digits[4:6]), int(digits[6:])).isoformat()
    return ""


def _container(value: Any) -> str:
    name = text(value)
    return "" if name.startswith("unknown") else name


def _chapters(value: Any) -> list[tuple[float, float, str]]:
    chapters = []
    for each in value[:MAX_CHAPTERS] if isinstance(value, list) else ():
        start, end = seconds(each.get("start_time")), seconds(each.get("end_time"))
        if start is not None and end is not None:
            chapters.append((start, end, text(each.get("title"), MAX_CHAPTER_TITLE)))
    return chapters
