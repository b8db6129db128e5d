"""yt-dlp as we let it be: what it may do, how it asks a site, and what we hear from it."""

import math
import os
import sys
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from http.cookiejar import LoadError
from pathlib import Path
from typing import Any

from downloader.guard import Guard
from downloader.order import Manner
from mesh.reasons import Reason

# Plugins are strangers' code, and curl connects behind the guard's back. Both count at import.
os.environ["YTDLP_NO_PLUGINS"] = "1"
sys.modules["curl_cffi"] = None  # type: ignore[assignment]

import yt_dlp.extractor.extractors  # noqa: E402
import yt_dlp.extractor.generic  # noqa: E402
import yt_dlp.extractor.youtube  # noqa: E402
from yt_dlp import YoutubeDL  # noqa: E402
from yt_dlp.cookies import YoutubeDLCookieJar  # noqa: E402
from yt_dlp.extractor.common import UnsupportedURLIE  # noqa: E402
from yt_dlp.networking import common as networking  # noqa: E402
from yt_dlp.networking._requests import RequestsRH, RequestsSession  # noqa: E402
from yt_dlp.networking.exceptions import HTTPError, NoSupportingHandlers  # noqa: E402
from yt_dlp.utils._jsruntime import _determine_runtime_path  # noqa: E402

# Reading every certificate takes its time; what a fork server has made, its children share.
networking.make_ssl_context = cache(networking.make_ssl_context)

RETRIES = 2
COOKIES = "cookies.txt"
LONGEST_WAIT_SECONDS = 86400


class Refusal(Exception):  # noqa: N818 - a decision, not an error
    """We will not go on, and know why."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Visitor(YoutubeDL):  # type: ignore[misc] # ships no types
    """Asks sites over HTTP alone, in the operator's manner, and tells the guard of every hop."""

    def __init__(self, manner: Manner, guard: Guard, **options: Any) -> None:
        self._guard = guard
        self.retry_after: float | None = None
        """Seconds a site that had enough of us asked us to stay away."""
        RequestsSession.send = _checked(RequestsSession.send, guard, manner)
        super().__init__({**_options(manner), **options})

    def add_default_info_extractors(self) -> None:
        """All of them; yt-dlp's own way to find out costs a tenth of a second."""
        for extractor in known_extractors():
            self.add_info_extractor(extractor)
        self.add_info_extractor(UnsupportedURLIE())

    def build_request_director(self, handlers: Any, preferences: Any = None) -> Any:
        """The others speak ftp, file or websocket."""
        return super().build_request_director([RequestsRH], preferences)

    def urlopen(self, request: Any) -> Any:
        """Every request passes here; hops of a redirect do not."""
        try:
            return super().urlopen(request)
        except NoSupportingHandlers:
            self._guard.check_url(request if isinstance(request, str) else request.url)
            raise
        except HTTPError as error:
            if error.status == 429:
                self.retry_after = seconds_in(error.response.headers.get("Retry-After"))
            raise

    def secrets(self) -> list[str]:
        """What must never be told."""
        return [cookie.value for cookie in self.cookiejar if cookie.value]


class Silence:
    """What yt-dlp has to say in passing; errors reach us as exceptions."""

    def debug(self, message: str) -> None:
        """Forgets it."""

    info = warning = error = debug


@cache
def known_extractors() -> list[Any]:
    """The classes of all extractors that are of use."""
    return [each for each in yt_dlp.extractor.gen_extractor_classes() if each._ENABLED]


def deno_of(manner: Manner) -> str:
    """The program yt-dlp solves YouTube's puzzles with."""
    return str(_determine_runtime_path(manner.js_runtime or None, "deno"))


def _options(manner: Manner) -> dict[str, Any]:
    options: dict[str, Any] = {
        "logger": Silence(),
        "quiet": True,
        "noprogress": True,
        "color": "never",
        "socket_timeout": manner.socket_timeout_seconds,
        "retries": RETRIES,
        "fragment_retries": RETRIES,
        "extractor_retries": 1,
        "cachedir": False,
        "enable_file_urls": False,
        "external_downloader": {"default": "native"},
        "fixup": "never",
        "js_runtimes": {"deno": {"path": deno_of(manner)}},
        # The solver comes with yt-dlp-ejs; nothing is fetched to be run.
        "remote_components": [],
        # "" means none; unset would mean whatever the environment says.
        "proxy": manner.proxy,
        "source_address": manner.source_address or None,
        "ratelimit": manner.max_bytes_per_second or None,
        "sleep_interval_requests": manner.request_interval_seconds,
        "sleep_interval": manner.request_interval_seconds,
    }
    if manner.user_agent:
        options["http_headers"] = {"User-Agent": manner.user_agent}
    if manner.cookies_file:
        options["cookiefile"] = _own_cookies(manner.cookies_file)
    return options


def _own_cookies(original: str) -> str:
    """yt-dlp writes its cookies back, and others read the same file."""
    try:
        text = Path(original).read_bytes()
        copy = Path(COOKIES)
        copy.touch(mode=0o600, exist_ok=False)
        copy.write_bytes(text)
        YoutubeDLCookieJar(COOKIES).load()
    except (OSError, LoadError, ValueError):
        # Whatever is wrong with it, the error would quote it.
        why = "the cookies file of the service cannot be used"
        raise Refusal(Reason.COOKIES_INVALID, why) from None
    return COOKIES


def _checked(send: Any, guard: Guard, manner: Manner) -> Any:
    def checked(session: Any, request: Any, **options: Any) -> Any:
        guard.check_url(request.url)
        if manner.proxy and not manner.allow_private_addresses:
            guard.check_host(request.url)
        return send(session, request, **options)

    return checked


def seconds_in(retry_after: str | None) -> float | None:
    """What the header says: a number of seconds, or a date."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        try:
            until = parsedate_to_datetime(retry_after or "")
            seconds = (until - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return min(max(seconds, 0), LONGEST_WAIT_SECONDS) if math.isfinite(seconds) else None
