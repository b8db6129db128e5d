"""Recognises yt-dlp searches, the sources that are not addresses."""

import re

SEARCH = re.compile(r"[a-z]{2,}search[a-z_]*(?:[1-9]\d{0,5}|all)?:\S")
"""yt-dlp's search syntax, such as "ytsearch5:cats"; yt-dlp checks whether the search exists."""


def is_search(source: str) -> bool:
    """Whether the source has the syntax of a search."""
    return bool(SEARCH.match(source)) and source.isprintable()
