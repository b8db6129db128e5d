"""The yt-dlp client: yt-dlp restricted to HTTP, guarded on every request, without side effects."""

from functools import cache
from http.cookiejar import LoadError
from pathlib import Path
from typing import Any

import yt_dlp.extractor.extractors
import yt_dlp.extractor.generic
import yt_dlp.extractor.youtube
from yt_dlp import YoutubeDL
from yt_dlp.cookies import YoutubeDLCookieJar
from yt_dlp.extractor.common import UnsupportedURLIE
from yt_dlp.networking import common as networking
from yt_dlp.networking._requests import RequestsResponseAdapter, RequestsRH, RequestsSession
from yt_dlp.networking.exceptions import HTTPError, NoSupportingHandlers
from yt_dlp.utils._jsruntime import _determine_runtime_path

from downloader.child.guard import Guard
from downloader.commands import ClientOptions
from mesh.reasons import Reason
from mesh.retry_after import retry_after_seconds

# Loading the certificates is slow; children share the context their fork server has made.
networking.make_ssl_context = cache(networking.make_ssl_context)

RETRIES = 2
PAGE_STEP = 256 * 1024
COOKIES = "cookies.txt"


class Refusal(Exception):  # noqa: N818 - a decision, not an error
    """The task stops on purpose, for a known reason."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class YtDlpClient(YoutubeDL):  # type: ignore[misc] # ships no types
    """Speaks only HTTP, follows the client options, and passes every request through the guard."""

    def __init__(self, client_options: ClientOptions, guard: Guard, **options: Any) -> None:
        self._guard = guard
        self.retry_after: float | None = None
        """Seconds the site asked us to wait when it last answered 429."""
        RequestsSession.send = _checked(RequestsSession.send, guard, client_options)
        RequestsSession.get_redirect_target = _without_body(RequestsSession.get_redirect_target)
        RequestsResponseAdapter._real_read = _limited(
            RequestsResponseAdapter._real_read, client_options.max_page_bytes
        )
        super().__init__({**_options(client_options), **options})

    def add_default_info_extractors(self) -> None:
        """Adds all extractors; yt-dlp's own lookup takes a tenth of a second."""
        for extractor in known_extractors():
            self.add_info_extractor(extractor)
        self.add_info_extractor(UnsupportedURLIE())

    def build_request_director(self, handlers: Any, preferences: Any = None) -> Any:
        """Only the HTTP handler; the others speak ftp, file or websocket."""
        return super().build_request_director([RequestsRH], preferences)

    def urlopen(self, request: Any) -> Any:
        """Every request passes here; redirects do not."""
        try:
            return super().urlopen(request)
        except NoSupportingHandlers:
            self._guard.check_url(request if isinstance(request, str) else request.url)
            raise
        except HTTPError as error:
            if error.status == 429:
                self.retry_after = retry_after_seconds(error.response.headers.get("Retry-After"))
            raise

    def secrets(self) -> list[str]:
        """Cookie values, which no message may contain."""
        return [cookie.value for cookie in self.cookiejar if cookie.value]


class NullLogger:
    """Discards yt-dlp's log; errors arrive as exceptions."""

    def debug(self, message: str) -> None:
        """Discards the message."""

    info = warning = error = debug


@cache
def known_extractors() -> list[Any]:
    """The classes of all enabled extractors."""
    return [each for each in yt_dlp.extractor.gen_extractor_classes() if each._ENABLED]


def deno_path(client_options: ClientOptions) -> str:
    """Path of deno, which runs YouTube's JavaScript challenges."""
    return str(_determine_runtime_path(client_options.js_runtime or None, "deno"))


def _options(client_options: ClientOptions) -> dict[str, Any]:
    options: dict[str, Any] = {
        "logger": NullLogger(),
        "quiet": True,
        "noprogress": True,
        "color": "never",
        "socket_timeout": client_options.socket_timeout_seconds,
        "retries": RETRIES,
        "fragment_retries": RETRIES,
        "extractor_retries": 1,
        "cachedir": False,
        "enable_file_urls": False,
        "external_downloader": {"default": "native"},
        "fixup": "never",
        "js_runtimes": {"deno": {"path": deno_path(client_options)}},
        # The challenge solver comes with yt-dlp-ejs; no code is fetched.
        "remote_components": [],
        # "" means no proxy; unset would mean the environment's.
        "proxy": client_options.proxy,
        "source_address": client_options.source_address or None,
        "ratelimit": client_options.max_bytes_per_second or None,
        "sleep_interval_requests": client_options.request_interval_seconds,
        "sleep_interval": client_options.request_interval_seconds,
    }
    if client_options.user_agent:
        options["http_headers"] = {"User-Agent": client_options.user_agent}
    if client_options.cookies_file:
        options["cookiefile"] = _copy_cookies(client_options.cookies_file)
    return options


def _copy_cookies(original: str) -> str:
    """Copies the cookies file: yt-dlp writes its cookies back, and other children read the same."""
    try:
        text = Path(original).read_bytes()
        copy = Path(COOKIES)
        copy.touch(mode=0o600, exist_ok=False)
        copy.write_bytes(text)
        YoutubeDLCookieJar(COOKIES).load()
    except (OSError, LoadError, ValueError):
        # Without the cause: its message would quote the file.
        raise Refusal(Reason.COOKIES_INVALID, "the service's cookies file cannot be read") from None
    return COOKIES


def _checked(send: Any, guard: Guard, client_options: ClientOptions) -> Any:
    def checked(session: Any, request: Any, **options: Any) -> Any:
        guard.check_url(request.url)
        if client_options.proxy and not client_options.allow_private_addresses:
            guard.check_host(request.url)
        return send(session, request, **options)

    return checked


def _limited(read: Any, most: int) -> Any:
    """Reads that name no size are of pages, which yt-dlp holds whole; media comes in pieces."""

    def refuse_beyond(size: int) -> None:
        if size > most:
            raise Refusal(Reason.TOO_LARGE, f"a page has more than the {most} bytes allowed")

    def limited(response: Any, amount: int | None = None) -> bytes:
        if amount is not None:
            return bytes(read(response, amount))
        raw_read = response.fp._raw_read

        def counted(*arguments: Any, **options: Any) -> bytes:
            # Before decompression: bytes may come without end and decompress to nothing.
            refuse_beyond(response.fp.tell())
            return bytes(raw_read(*arguments, **options))

        response.fp._raw_read = counted
        page = bytearray()
        while data := read(response, PAGE_STEP):
            page += data
            refuse_beyond(len(page))
        return bytes(page)

    return limited


def _without_body(target_of: Any) -> Any:
    """Skips the body of a redirect, which would be read whole and is never looked at."""

    def without_body(session: Any, response: Any) -> Any:
        target = target_of(session, response)
        if target is not None:
            response.close()
            response._content = b""
        return target

    return without_body
