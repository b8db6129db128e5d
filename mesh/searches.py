"""Sources that are no addresses: what yt-dlp is to search for."""

import re

SEARCH = re.compile(r"[a-z]{2,}search[a-z_]*(?:[1-9]\d{0,5}|all)?:\S")
"""How yt-dlp writes a search, such as "ytsearch5:cats"; which exist, it knows itself."""


def is_search(source: str) -> bool:
    """Whether it reads like a search."""
    return bool(SEARCH.match(source)) and source.isprintable()
