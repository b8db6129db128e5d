"""Preloaded by the fork server: does the slow start-up work once, before any child is forked."""

import gc
import re
from contextlib import suppress
from typing import Any

from yt_dlp import YoutubeDL
from yt_dlp.networking import common as networking

from downloader.child import main
from downloader.child.download import FORMAT
from downloader.child.ytdlp_client import NullLogger, deno_path, known_extractors
from downloader.commands import ClientOptions

__all__ = ["main"]

UNREACHABLE_URL = "https://warm.invalid/a.mp3"
PATTERN_CACHE_SIZE = 1 << 16
"""By default Python evicts a compiled pattern after 500 others."""


def _warm_up() -> None:
    re._MAXCACHE = PATTERN_CACHE_SIZE  # type: ignore[attr-defined]
    deno_path(ClientOptions(1))
    networking.make_ssl_context(verify=True, legacy_support=False, use_certifi=True)
    options: dict[str, Any] = {"logger": NullLogger(), "quiet": True, "cachedir": False}
    with YoutubeDL({**options, "format": FORMAT, "proxy": ""}) as client:
        client.process_ie_result({"id": "a", "title": "a", "url": UNREACHABLE_URL}, download=False)
        # Each of nearly two thousand extractors compiles its patterns on first use.
        for extractor in known_extractors():
            extractor.suitable(UNREACHABLE_URL)
            # For pages with embedded players; loads the extractor itself.
            with suppress(Exception):
                list(extractor.extract_from_webpage(client, UNREACHABLE_URL, ""))


_warm_up()
# Frozen objects stay in memory pages that the children share.
gc.freeze()
