"""What yt-dlp's info dict says about a recording, told in our words.

The dict is filled by thousands of extractors from pages of strangers: nothing in it is certain.
"""

import math
from datetime import timedelta
from typing import Any

from downloader.engine import Chapter, Found

MAX_TEXT = 1000
MAX_CHAPTERS = 500
MAX_CHAPTER_TITLE = 200


def describe(info: dict[str, Any]) -> dict[str, Any]:
    """What may travel as JSON; `found_in` reads it."""
    direct = bool(info.get("direct"))
    return {
        # A plain file has no identifier, and the day it was last changed is not one of publication.
        "media_id": "" if direct else _text(info.get("id")),
        "upload_date": "" if direct else _day(info.get("upload_date")),
        "title": _text(info.get("title")),
        "uploader": _text(info.get("uploader") or info.get("channel")),
        "duration": seconds(info.get("duration")),
        "thumbnail_url": _text(info.get("thumbnail")),
        "webpage_url": _text(info.get("webpage_url")),
        "extractor": _text(info.get("extractor")),
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


def _text(value: Any, longest: int = MAX_TEXT) -> str:
    # Half a surrogate pair is a string to Python, but not to anybody else.
    text = "" if value is None else str(value)[:longest]
    return text.encode(errors="replace").decode()


def _day(value: Any) -> str:
    text = _text(value)
    return f"{text[:4]}-{text[4:6]}-{text[6:]}" if len(text) == 8 and text.isdecimal() else ""


def _container(value: Any) -> str:
    text = _text(value)
    return "" if text.startswith("unknown") else text


def _chapters(value: Any) -> list[tuple[float, float, str]]:
    chapters = []
    for each in value[:MAX_CHAPTERS] if isinstance(value, list) else ():
        start, end = seconds(each.get("start_time")), seconds(each.get("end_time"))
        if start is not None and end is not None:
            chapters.append((start, end, _text(each.get("title"), MAX_CHAPTER_TITLE)))
    return chapters
