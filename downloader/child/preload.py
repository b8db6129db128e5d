"""Loaded once by the fork server: does beforehand what every download would do again."""

import gc
import re
from contextlib import suppress
from typing import Any

from yt_dlp import YoutubeDL
from yt_dlp.networking import common as networking

from downloader import child
from downloader.order import Manner
from downloader.recording import FORMAT
from downloader.visitor import Silence, deno_of, known_extractors

__all__ = ["child"]

NOWHERE = "https://warm.invalid/a.mp3"
ROOM_FOR_PATTERNS = 1 << 16
"""By default Python forgets a compiled pattern after five hundred others."""


def _warm_up() -> None:
    re._MAXCACHE = ROOM_FOR_PATTERNS  # type: ignore[attr-defined]
    deno_of(Manner(1))
    networking.make_ssl_context(verify=True, legacy_support=False, use_certifi=True)
    options: dict[str, Any] = {"logger": Silence(), "quiet": True, "cachedir": False}
    with YoutubeDL({**options, "format": FORMAT, "proxy": ""}) as nobody:
        nobody.process_ie_result({"id": "a", "title": "a", "url": NOWHERE}, download=False)
        # Each extractor compiles its patterns when first asked, and there are nearly two thousand.
        for extractor in known_extractors():
            extractor.suitable(NOWHERE)
            # For pages that embed something; loads the extractor itself.
            with suppress(Exception):
                list(extractor.extract_from_webpage(nobody, NOWHERE, ""))


_warm_up()
# Children share these pages as long as nobody touches them.
gc.freeze()
