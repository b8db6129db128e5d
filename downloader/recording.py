"""One recording through yt-dlp: what it may do, what it found, and its bytes as they come."""

import io
import os
import resource
import shutil
import sys
from collections.abc import Callable
from typing import Any

from downloader import facts
from downloader.order import Order
from mesh.reasons import Reason

# Plugins are strangers' code, and curl connects behind the guard's back. Both count at import.
os.environ["YTDLP_NO_PLUGINS"] = "1"
sys.modules["curl_cffi"] = None  # type: ignore[assignment]

import yt_dlp.extractor.extractors  # noqa: E402
import yt_dlp.extractor.generic  # noqa: E402
import yt_dlp.extractor.youtube  # noqa: E402
from yt_dlp import YoutubeDL  # noqa: E402
from yt_dlp.downloader.common import FileDownloader  # noqa: E402
from yt_dlp.downloader.external import ExternalFD  # noqa: E402
from yt_dlp.downloader.fragment import HttpQuietDownloader  # noqa: E402
from yt_dlp.downloader.http import HttpFD  # noqa: E402

MAX_FRAGMENT_BYTES = 256 * 1024**2
"""yt-dlp holds one fragment of HLS or DASH in memory; no honest one is near this."""

RETRIES = 2

# All of these yt-dlp fetches itself, in order, and can write to a pipe. The others need ffmpeg or
# another program, which would connect wherever it likes.
FORMATS = (
    "[protocol~='^(https?|m3u8|m3u8_native|http_dash_segments|http_dash_segments_generator|ism)$']"
)

Say = Callable[..., None]


class Refusal(Exception):  # noqa: N818 - a decision, not an error
    """We will not go on, and know why."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Recording:
    """One download, from address to last byte."""

    def __init__(self, order: Order, media: int, say: Say) -> None:
        self._order = order
        self._say = say
        self._sink = Sink(media, order.max_bytes)
        self._total: int | None = None
        self._complete = False
        self.is_of_a_known_site = False
        """Whether an extractor made for the site has described the recording already."""

    def fetch(self) -> int:
        """Says what it found, sends every byte, and returns how many there were."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FRAGMENT_BYTES, MAX_FRAGMENT_BYTES))
        sys.stdout = Stdout(self._sink)
        _keep_yt_dlp_in_bounds()
        with OneRecording(self._options(), self._check, self._announce) as yt_dlp:
            yt_dlp.extract_info(self._order.source_url)
        if not self._complete:
            raise Refusal(Reason.NETWORK_ERROR, "the download ended before the recording did")
        return self._sink.size

    def _options(self) -> dict[str, Any]:
        order = self._order
        options: dict[str, Any] = {
            "format": f"bestaudio{FORMATS}/best{FORMATS}",
            "outtmpl": {"default": "-"},
            "logger": Silence(),
            "quiet": True,
            "noprogress": True,
            "color": "never",
            "progress_hooks": [self._follow],
            "noplaylist": True,
            "socket_timeout": order.socket_timeout,
            "retries": RETRIES,
            "fragment_retries": RETRIES,
            "extractor_retries": 1,
            # Else a hole in the recording would pass for success.
            "skip_unavailable_fragments": False,
            "continuedl": False,
            "cachedir": False,
            "enable_file_urls": False,
            "external_downloader": {"default": "native"},
            "fixup": "never",
            # "" means none; unset would mean whatever the environment says.
            "proxy": order.proxy,
        }
        if order.cookies_file:
            # yt-dlp writes its cookies back, and others read the same file.
            options["cookiefile"] = shutil.copyfile(order.cookies_file, "cookies.txt")
        return options

    def _check(self, info: dict[str, Any]) -> None:
        status = info.get("live_status")
        if status == "is_upcoming":
            raise Refusal(Reason.NOT_YET_AVAILABLE, "the recording has not begun yet")
        if info.get("is_live") or status == "is_live":
            raise Refusal(Reason.LIVE_STREAM, "the address is a live stream")
        length, limit = facts.seconds(info.get("duration")), self._order.max_seconds
        if length is not None and length > limit:
            raise Refusal(
                Reason.TOO_LONG,
                f"the recording lasts {length:.0f} s, and {limit:.0f} s are allowed",
            )

    def _announce(self, info: dict[str, Any]) -> None:
        self._refuse_size(info.get("filesize"))
        self.is_of_a_known_site = info.get("extractor_key") != "Generic"
        self._say("found", **facts.describe(info))

    def _follow(self, status: dict[str, Any]) -> None:
        self._complete = status["status"] == "finished"
        total = status.get("total_bytes")
        if total is not None and total != self._total and not self._complete:
            self._refuse_size(total)
            self._total = total
            self._say("total", bytes=total)

    def _refuse_size(self, size: int | None) -> None:
        if size is not None and size > self._order.max_bytes:
            raise too_large(self._order.max_bytes)


class OneRecording(YoutubeDL):  # type: ignore[misc] # ships no types
    """yt-dlp, but it asks before it fetches, and takes no playlist."""

    def __init__(self, options: dict[str, Any], check: Say, announce: Say) -> None:
        self._check = check
        self._announce = announce
        super().__init__(options)

    def process_ie_result(
        self, ie_result: dict[str, Any], download: bool = True, extra_info: Any = None
    ) -> Any:
        """Every result of an extractor passes here before anything is done with it."""
        if ie_result.get("_type") in ("playlist", "multi_video"):
            raise Refusal(Reason.UNSUPPORTED_URL, "the address is a playlist, not one recording")
        self._check(ie_result)
        return super().process_ie_result(ie_result, download, extra_info)

    def process_info(self, info_dict: dict[str, Any]) -> Any:
        """The format is chosen; the next step is the first byte."""
        self._announce(info_dict)
        return super().process_info(info_dict)

    def report_file_already_downloaded(self, file_name: str) -> None:
        """yt-dlp takes a file that lacks less than 100 bytes for whole; we do not."""
        raise broken()


class Sink:
    """The pipe, as a file that counts. Writing blocks while nobody reads."""

    def __init__(self, descriptor: int, max_bytes: int) -> None:
        self._descriptor = descriptor
        self._max_bytes = max_bytes
        self.size = 0

    def write(self, data: bytes) -> int:
        """Writes all of it or raises."""
        if self.size + len(data) > self._max_bytes:
            raise too_large(self._max_bytes)
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        """yt-dlp closes its file after the last fragment; the pipe ends with the process."""


class Stdout(io.StringIO):
    """Text written here is lost; `buffer` is where "-" leads."""

    def __init__(self, buffer: Sink) -> None:
        super().__init__()
        self.buffer = buffer  # type: ignore[misc, assignment] # all of a file that yt-dlp needs

    def write(self, text: str) -> int:
        """Forgets it."""
        return len(text)


class Silence:
    """What yt-dlp has to say in passing; errors reach us as exceptions."""

    def debug(self, message: str) -> None:
        """Forgets it."""

    info = warning = error = debug


def too_large(limit: int) -> Refusal:
    """The refusal of a recording with more bytes than this."""
    return Refusal(Reason.TOO_LARGE, f"the recording has more than the {limit} bytes allowed")


def broken() -> Refusal:
    """The refusal of a recording that stopped in the middle."""
    return Refusal(Reason.NETWORK_ERROR, "the connection broke, and the site cannot resume")


def warm_up() -> None:
    """Each extractor compiles its pattern when first asked, and there are nearly two thousand."""
    for extractor in yt_dlp.extractor.gen_extractor_classes():
        extractor.suitable("https://warm.invalid/")


def _keep_yt_dlp_in_bounds() -> None:
    def refuse_to_start_over(*_: Any) -> None:
        # To a file it would write from the beginning again; a pipe has no beginning.
        raise broken()

    def refuse_other_programs(*_: Any) -> None:
        raise Refusal(Reason.UNSUPPORTED_URL, "the recording needs a program that is not trusted")

    HttpFD.report_unable_to_resume = refuse_to_start_over
    HttpQuietDownloader.report_unable_to_resume = FileDownloader.report_unable_to_resume
    ExternalFD.real_download = refuse_other_programs
