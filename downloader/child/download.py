"""Download task: one recording through yt-dlp, its metadata first, then its bytes as they come."""

import io
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from yt_dlp.downloader.common import FileDownloader
from yt_dlp.downloader.external import ExternalFD
from yt_dlp.downloader.fragment import HttpQuietDownloader
from yt_dlp.downloader.http import HttpFD

from downloader import metadata
from downloader.child.confinement import ForbiddenActionError
from downloader.child.guard import Guard
from downloader.child.task import ChildTask, Send
from downloader.child.ytdlp_client import Refusal, YtDlpClient
from downloader.commands import ClientOptions, DownloadCommand
from mesh.flow import MinimumFlow
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason

MAX_FRAGMENT_BYTES = 256 * 1024**2
"""yt-dlp holds one fragment of HLS or DASH in memory; no real one comes near this size."""

# yt-dlp fetches these protocols itself, in order, and can write them to a pipe. The others need
# ffmpeg or another program, whose connections the guard could not check.
STREAMED = (
    "[protocol~='^(https?|m3u8|m3u8_native|http_dash_segments|http_dash_segments_generator|ism)$']"
)
FORMAT = f"bestaudio{STREAMED}/best{STREAMED}"

MAX_READ_BYTES = 1024**2
MAX_PARTS = 200
PARTS_LIST = "parts.txt"
DEMUXERS = "concat,aac,flac,flv,matroska,mov,mp3,mpegts,ogg,wav"
"""Media formats and our own concat list. A disguised playlist would open other files and URLs."""

JOIN_ARGUMENTS = (
    *("-nostdin", "-hide_banner", "-loglevel", "error"),
    *("-protocol_whitelist", "file", "-format_whitelist", DEMUXERS),
    *("-f", "concat", "-safe", "1", "-i", PARTS_LIST),
    *("-map", "0:a:0", "-c", "copy", "-f", "matroska", "pipe:1"),
)


class DownloadTask(ChildTask[DownloadCommand]):
    """Downloads one recording, from its address to its last byte."""

    def __init__(self, command: DownloadCommand, guard: Guard, send: Send, media: int) -> None:
        super().__init__(command, guard, send)
        self._sink = Sink(media, command.max_bytes)
        self._total: int | None = None
        self._complete = False
        self._spooled = 0
        self._has_parts = False

    def run(self) -> dict[str, Any]:
        """Sends the metadata and every byte, and returns how many bytes there were."""
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FRAGMENT_BYTES, hard))
        sys.stdout = StdoutToSink(self._sink)
        _never_start_over()
        refuse_other_programs()
        with self.open_client(SingleVideoClient, **self._options()) as client:
            client.before_bytes = self._send_metadata
            client.fetch_parts = self._fetch_parts
            client.max_seconds = self._command.max_seconds
            client.minimum_flow = minimum_flow(self._command.client_options)
            client.extract_info(self._command.source_url)
        if not self._complete:
            raise Refusal(Reason.NETWORK_ERROR, "the download ended before the recording did")
        return {"size": self._sink.size}

    def _options(self) -> dict[str, Any]:
        most_a_second = self._command.client_options.max_bytes_per_second
        return {
            "format": FORMAT,
            "outtmpl": {"default": "-"},
            "progress_hooks": [self._on_progress],
            "noplaylist": True,
            # Otherwise a recording with a missing fragment would count as complete.
            "skip_unavailable_fragments": False,
            "continuedl": False,
            # The most that one read returns: see SingleVideoClient.urlopen. yt-dlp keeps to a rate
            # limit by a pause after each read.
            "buffersize": min(MAX_READ_BYTES, most_a_second or MAX_READ_BYTES),
            "noresizebuffer": True,
        }

    def _fetch_parts(self, info: dict[str, Any], fetch_to: Callable[[Any, str], None]) -> None:
        """Spools the parts to disk: they can be joined only once the last has arrived."""
        if not self._command.client_options.ffmpeg:
            raise Refusal(
                Reason.TOOL_MISSING, "the recording comes in parts, and ffmpeg is not installed"
            )
        if self._has_parts:
            raise Refusal(
                Reason.UNSUPPORTED_URL, "a part of the recording is itself split into parts"
            )
        self._send_metadata(info)
        self._has_parts = True
        most = self._command.max_spool_bytes
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        parts: list[str] = []
        for entry in info.get("entries") or ():
            parts.append(f"part{len(parts)}")
            if len(parts) > MAX_PARTS:
                raise Refusal(Reason.TOO_LARGE, f"the recording has more than {MAX_PARTS} parts")
            fetch_to(entry, parts[-1])
            self._spooled += Path(parts[-1]).stat().st_size
        _join(self._command.client_options.ffmpeg, parts, self._sink.write)

    def _send_metadata(self, info: dict[str, Any]) -> None:
        if self._has_parts:
            return
        self._refuse_size(info.get("filesize"))
        self.has_site_metadata = info.get("extractor_key") != "Generic"
        self.send("found", **metadata.to_json(info))

    def _on_progress(self, status: dict[str, Any]) -> None:
        self._complete = status["status"] == "finished"
        total = status.get("total_bytes")
        if self._has_parts:
            so_far = self._spooled + (status.get("downloaded_bytes") or 0)
            if so_far > self._command.max_spool_bytes:
                raise too_large(self._command.max_spool_bytes)
        elif total is not None and total != self._total and not self._complete:
            self._refuse_size(total)
            self._total = total
            self.send("total", bytes=total)

    def _refuse_size(self, size: int | None) -> None:
        if size is not None and size > self._command.max_bytes:
            raise too_large(self._command.max_bytes)


class SingleVideoClient(YtDlpClient):
    """yt-dlp for one recording: checks it before the first byte, and refuses playlists."""

    max_seconds: float
    minimum_flow: MinimumFlow
    before_bytes: Send
    fetch_parts: Callable[[dict[str, Any], Callable[[Any, str], None]], None]
    _fetches_media = False

    def urlopen(self, request: Any) -> Any:
        """Media is passed on as it comes, and must not come too slowly."""
        if not self._fetches_media:
            return super().urlopen(request)
        began = monotonic()
        response = super().urlopen(request)
        self._note(0, began)
        read_page = response._real_read

        def read(amount: int | None = None) -> bytes:
            if amount is None:
                return bytes(read_page())
            began = monotonic()
            # `read` would wait for the whole amount, however slowly it comes.
            data = bytes(response.fp.read1(amount, decode_content=True))
            self._note(len(data), began)
            return data

        response._real_read = read
        return response

    def _note(self, received: int, began: float) -> None:
        self.minimum_flow.note(received, monotonic() - began)
        if self.minimum_flow.left <= 0:
            raise Refusal(Reason.SOURCE_TOO_SLOW, "the site sends the recording too slowly")

    def process_ie_result(
        self, ie_result: dict[str, Any], download: bool = True, extra_info: Any = None
    ) -> Any:
        """Checks every extractor's result before yt-dlp acts on it."""
        if ie_result.get("_type") == "multi_video" and download:

            def fetch_to(entry: Any, name: str) -> None:
                self.params["outtmpl"]["default"] = name
                super(SingleVideoClient, self).process_ie_result(entry, True, extra_info)

            refuse_endless(ie_result, self.max_seconds)
            self.fetch_parts(ie_result, fetch_to)
            return ie_result
        if ie_result.get("_type") in ("playlist", "multi_video"):
            raise Refusal(Reason.UNSUPPORTED_URL, "the address is a playlist, not one recording")
        refuse_endless(ie_result, self.max_seconds)
        return super().process_ie_result(ie_result, download, extra_info)

    def process_video_result(self, info_dict: dict[str, Any], download: bool = True) -> Any:
        """Refuses a recording without audio: all formats are known, none is chosen yet."""
        formats = info_dict.get("formats") or ()
        if (
            download
            and formats
            and all(each.get("acodec") == "none" and not each.get("has_drm") for each in formats)
        ):
            raise Refusal(Reason.NO_AUDIO, "the recording has no audio")
        return super().process_video_result(info_dict, download)

    def process_info(self, info_dict: dict[str, Any]) -> Any:
        """Runs the hook, then downloads the format that is chosen."""
        self.before_bytes(info_dict)
        self._fetches_media = True
        try:
            return super().process_info(info_dict)
        finally:
            self._fetches_media = False

    def report_file_already_downloaded(self, file_name: str) -> None:
        """Fails: yt-dlp takes a file that lacks fewer than 100 bytes for complete."""
        raise connection_lost()


def minimum_flow(options: ClientOptions) -> MinimumFlow:
    """The slowest download that is waited for."""
    return MinimumFlow(options.min_rate_bytes * options.min_rate_seconds, options.min_rate_seconds)


def refuse_endless(info: dict[str, Any], max_seconds: float) -> None:
    """Refuses live and upcoming streams, and recordings longer than allowed."""
    status = info.get("live_status")
    if status == "is_upcoming":
        raise Refusal(Reason.NOT_YET_AVAILABLE, "the recording has not started yet")
    if info.get("is_live") or status == "is_live":
        raise Refusal(Reason.LIVE_STREAM, "the address is a live stream")
    length = metadata.seconds(info.get("duration"))
    if length is not None and length > max_seconds:
        raise Refusal(
            Reason.TOO_LONG,
            f"the recording lasts {length:.0f} s, and {max_seconds:.0f} s are allowed",
        )


class Sink:
    """The media pipe as a file that counts bytes; writes block until the service reads."""

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
        """Does nothing: writes are not buffered."""

    def close(self) -> None:
        """Does nothing: yt-dlp closes its file, but the pipe closes with the process."""


class StdoutToSink(io.StringIO):
    """Discards text; its `buffer`, which yt-dlp writes to for the file name "-", is the sink."""

    def __init__(self, buffer: Sink) -> None:
        super().__init__()
        self.buffer = buffer  # type: ignore[misc, assignment] # all of a file that yt-dlp needs

    def write(self, text: str) -> int:
        """Discards the text."""
        return len(text)


def too_large(limit: int) -> Refusal:
    """The recording has more bytes than the limit."""
    return Refusal(Reason.TOO_LARGE, f"the recording has more than the {limit} bytes allowed")


def connection_lost() -> Refusal:
    """The transfer stopped in the middle."""
    return Refusal(Reason.NETWORK_ERROR, "the connection was lost, and the site cannot resume it")


def refuse_other_programs() -> None:
    """Refuses recordings that yt-dlp would fetch with ffmpeg or curl."""

    def refuse(*_: Any) -> None:
        raise Refusal(
            Reason.UNSUPPORTED_URL, "the recording can only be fetched with an external program"
        )

    ExternalFD.real_download = refuse


def _never_start_over() -> None:
    """Where yt-dlp would rewrite a file from its beginning, fails: a pipe cannot be rewritten."""

    def refuse_to_start_over(*_: Any) -> None:
        raise connection_lost()

    HttpFD.report_unable_to_resume = refuse_to_start_over
    HttpQuietDownloader.report_unable_to_resume = FileDownloader.report_unable_to_resume


def check_ffmpeg_arguments(arguments: list[str]) -> None:
    """Allows exactly the ffmpeg call that joins parts."""
    if tuple(arguments) != JOIN_ARGUMENTS:
        raise ForbiddenActionError("ffmpeg may only join parts")


def _join(ffmpeg: str, parts: Sequence[str], write: Callable[[bytes], int]) -> None:
    """Writes the audio of all parts as one recording: ffmpeg concatenates the files on disk."""
    Path(PARTS_LIST).write_text("".join(f"file {part}\n" for part in parts))
    with subprocess.Popen(  # noqa: S603 - a fixed command on files we wrote
        [ffmpeg, *JOIN_ARGUMENTS],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # The static build crashes on MPEG-TS if it finds the iconv modules of another libc.
        env={"LC_ALL": "C", "GCONV_PATH": "/nonexistent"},
    ) as process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        while data := process.stdout.read(MAX_FRAME_BYTES):
            write(data)
    if process.returncode:
        raise Refusal(Reason.CORRUPT_MEDIA, "the parts of the recording do not fit together")
