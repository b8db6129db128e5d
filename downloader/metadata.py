"""What yt-dlp's info dict says about a recording, told in our words.

The dict is filled by thousands of extractors from pages of strangers: nothing in it is certain.
"""

import math
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

from downloader.engine import Chapter, Found

MAX_TEXT = 1000
MAX_CHAPTERS = 500
MAX_CHAPTER_TITLE = 200


def describe(info: dict[str, Any]) -> dict[str, Any]:
    """What may travel as JSON; `found_in` reads it."""
    direct = bool(info.get("direct"))
    return {
        # A plain file has no identifier.
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


def found_in(facts: dict[str, Any]) -> Found:
    """The other way round."""
    duration = facts["duration"]
    chapters = tuple(
        Chapter(timedelta(seconds=start), timedelta(seconds=end), title)
        for start, end, title in facts["chapters"]
    )
    return Found(
        **{
            **facts,
            "duration": None if duration is None else timedelta(seconds=duration),
            "chapters": chapters,
        }
    )


def seconds(value: Any) -> float | None:
    """A length of time, or None if it is not one."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and 0 <= number < 10**9 else None


def day_of(info: dict[str, Any]) -> str:
    """Day of publication as YYYY-MM-DD, or "" if it is not known."""
    if info.get("direct"):  # of a plain file: the day it was last changed
        return ""
    said = _day(info.get("upload_date"))
    if not said and "timestamp" in info:
        with suppress(TypeError, ValueError, OverflowError, OSError):
            return datetime.fromtimestamp(info["timestamp"], UTC).date().isoformat()
    return said


def age_of(day: str) -> timedelta:
    """How long ago that was; nothing if nobody knows."""
    return datetime.now(UTC).date() - date.fromisoformat(day) if day else timedelta(0)


def text(value: Any, longest: int = MAX_TEXT) -> str:
    """At most this much of it, as text that can travel."""
    # Half a surrogate pair is a string to Python, but not to anybody else.
    cut = "" if value is None else str(value)[:longest]
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
