"""One recording through yt-dlp: what it found, and its bytes as they come."""

import io
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from yt_dlp.downloader.common import FileDownloader
from yt_dlp.downloader.external import ExternalFD
from yt_dlp.downloader.fragment import HttpQuietDownloader
from yt_dlp.downloader.http import HttpFD

from downloader import facts
from downloader.errand import Errand, Say
from downloader.guard import Guard
from downloader.joining import MAX_PARTS, join, set_bounds
from downloader.order import FetchOrder
from downloader.visitor import Refusal, Visitor
from mesh.reasons import Reason

MAX_FRAGMENT_BYTES = 256 * 1024**2
"""yt-dlp holds one fragment of HLS or DASH in memory; no honest one is near this."""

# All of these yt-dlp fetches itself, in order, and can write to a pipe. The others need ffmpeg or
# another program, which would connect wherever it likes.
STREAMED = (
    "[protocol~='^(https?|m3u8|m3u8_native|http_dash_segments|http_dash_segments_generator|ism)$']"
)
FORMAT = f"bestaudio{STREAMED}/best{STREAMED}"


class Recording(Errand):
    """One download, from address to last byte."""

    def __init__(self, order: FetchOrder, guard: Guard, say: Say, media: int) -> None:
        super().__init__(order, guard, say)
        self._order = order
        self._sink = Sink(media, order.max_bytes)
        self._total: int | None = None
        self._complete = False
        self._spooled = 0
        self._is_in_parts = False

    def run(self) -> dict[str, Any]:
        """Says what it found, sends every byte, and returns how many there were."""
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FRAGMENT_BYTES, hard))
        sys.stdout = Stdout(self._sink)
        _write_to_a_pipe()
        refuse_other_programs()
        with self.visit(OneRecording, **self._options()) as yt_dlp:
            yt_dlp.before_bytes = self._announce
            yt_dlp.fetch_parts = self._fetch_parts
            yt_dlp.max_seconds = self._order.max_seconds
            yt_dlp.extract_info(self._order.source_url)
        if not self._complete:
            raise Refusal(Reason.NETWORK_ERROR, "the download ended before the recording did")
        return {"size": self._sink.size}

    def _options(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "outtmpl": {"default": "-"},
            "progress_hooks": [self._follow],
            "noplaylist": True,
            # Else a hole in the recording would pass for success.
            "skip_unavailable_fragments": False,
            "continuedl": False,
        }

    def _fetch_parts(self, info: dict[str, Any], fetch_to: Callable[[Any, str], None]) -> None:
        """They are spooled: only when the last is here can they be made one recording."""
        if not self._order.manner.ffmpeg:
            raise Refusal(Reason.TOOL_MISSING, "the recording is in parts, and ffmpeg is missing")
        if self._is_in_parts:
            raise Refusal(Reason.UNSUPPORTED_URL, "the parts of the recording have parts")
        self._announce(info)
        self._is_in_parts = True
        set_bounds(self._order.max_spool_bytes)
        parts: list[str] = []
        for entry in info.get("entries") or ():
            parts.append(f"part{len(parts)}")
            if len(parts) > MAX_PARTS:
                raise Refusal(Reason.TOO_LARGE, f"the recording has more than {MAX_PARTS} parts")
            fetch_to(entry, parts[-1])
            self._spooled += Path(parts[-1]).stat().st_size
        join(self._order.manner.ffmpeg, parts, self._sink)

    def _announce(self, info: dict[str, Any]) -> None:
        if self._is_in_parts:
            return
        self._refuse_size(info.get("filesize"))
        self.is_of_a_known_site = info.get("extractor_key") != "Generic"
        self.say("found", **facts.describe(info))

    def _follow(self, status: dict[str, Any]) -> None:
        self._complete = status["status"] == "finished"
        total = status.get("total_bytes")
        if self._is_in_parts:
            so_far = self._spooled + (status.get("downloaded_bytes") or 0)
            if so_far > self._order.max_spool_bytes:
                raise too_large(self._order.max_spool_bytes)
        elif total is not None and total != self._total and not self._complete:
            self._refuse_size(total)
            self._total = total
            self.say("total", bytes=total)

    def _refuse_size(self, size: int | None) -> None:
        if size is not None and size > self._order.max_bytes:
            raise too_large(self._order.max_bytes)


class OneRecording(Visitor):
    """yt-dlp, but it asks before it fetches, and takes no playlist."""

    max_seconds: float
    before_bytes: Say
    fetch_parts: Callable[[dict[str, Any], Callable[[Any, str], None]], None]

    def process_ie_result(
        self, ie_result: dict[str, Any], download: bool = True, extra_info: Any = None
    ) -> Any:
        """Every result of an extractor passes here before anything is done with it."""
        if ie_result.get("_type") == "multi_video" and download:

            def fetch_to(entry: Any, name: str) -> None:
                self.params["outtmpl"]["default"] = name
                super(OneRecording, self).process_ie_result(entry, True, extra_info)

            refuse_endless(ie_result, self.max_seconds)
            self.fetch_parts(ie_result, fetch_to)
            return ie_result
        if ie_result.get("_type") in ("playlist", "multi_video"):
            raise Refusal(Reason.UNSUPPORTED_URL, "the address is a playlist, not one recording")
        refuse_endless(ie_result, self.max_seconds)
        return super().process_ie_result(ie_result, download, extra_info)

    def process_video_result(self, info_dict: dict[str, Any], download: bool = True) -> Any:
        """All formats are known, and one has yet to be chosen."""
        formats = info_dict.get("formats") or ()
        if (
            download
            and formats
            and all(each.get("acodec") == "none" and not each.get("has_drm") for each in formats)
        ):
            raise Refusal(Reason.NO_AUDIO, "the recording has no sound")
        return super().process_video_result(info_dict, download)

    def process_info(self, info_dict: dict[str, Any]) -> Any:
        """The format is chosen; the next step is the first byte."""
        self.before_bytes(info_dict)
        return super().process_info(info_dict)

    def report_file_already_downloaded(self, file_name: str) -> None:
        """yt-dlp takes a file that lacks less than 100 bytes for whole; we do not."""
        raise broken()


def refuse_endless(info: dict[str, Any], max_seconds: float) -> None:
    """Live streams have no end, and some recordings end too late."""
    status = info.get("live_status")
    if status == "is_upcoming":
        raise Refusal(Reason.NOT_YET_AVAILABLE, "the recording has not begun yet")
    if info.get("is_live") or status == "is_live":
        raise Refusal(Reason.LIVE_STREAM, "the address is a live stream")
    length = facts.seconds(info.get("duration"))
    if length is not None and length > max_seconds:
        raise Refusal(
            Reason.TOO_LONG,
            f"the recording lasts {length:.0f} s, and {max_seconds:.0f} s are allowed",
        )


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


def too_large(limit: int) -> Refusal:
    """The refusal of a recording with more bytes than this."""
    return Refusal(Reason.TOO_LARGE, f"the recording has more than the {limit} bytes allowed")


def broken() -> Refusal:
    """The refusal of a recording that stopped in the middle."""
    return Refusal(Reason.NETWORK_ERROR, "the connection broke, and the site cannot resume")


def refuse_other_programs() -> None:
    """What yt-dlp would hand to ffmpeg or curl is not fetched."""

    def refuse(*_: Any) -> None:
        raise Refusal(Reason.UNSUPPORTED_URL, "the recording needs a program that is not trusted")

    ExternalFD.real_download = refuse


def _write_to_a_pipe() -> None:
    def refuse_to_start_over(*_: Any) -> None:
        # To a file it would write from the beginning again; a pipe has no beginning.
        raise broken()

    HttpFD.report_unable_to_resume = refuse_to_start_over
    HttpQuietDownloader.report_unable_to_resume = FileDownloader.report_unable_to_resume
