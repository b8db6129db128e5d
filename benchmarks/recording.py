"""A long spoken recording made from a short one, and a web server that has it."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from imageio_ffmpeg import get_ffmpeg_exe

BITRATE = 64_000
"""Constant, so that silence is as many bytes as speech: 29 MB an hour."""


def make_recording(speech: Path, target: Path, *, seconds: float, every: float) -> None:
    """Writes an Ogg Opus file of that length in which `speech` is heard once every so often."""
    block = target.with_suffix(".block.ogg")
    encoded = ("-ac", "1", "-c:a", "libopus", "-b:a", str(BITRATE), "-vbr", "off")
    run_ffmpeg(
        "-i", str(speech), "-af", f"apad=whole_dur={every}", "-t", str(every), *encoded, block
    )
    # Encoded once, then repeated as it is: three hours take a second.
    run_ffmpeg("-stream_loop", "-1", "-i", str(block), "-t", str(seconds), "-c", "copy", target)
    block.unlink()


def run_ffmpeg(*arguments: str | Path) -> None:
    """Runs ffmpeg to its end; raises if it fails."""
    command = [get_ffmpeg_exe(), "-v", "error", "-nostdin", "-y", *map(str, arguments)]
    subprocess.run(command, check=True, timeout=600)


def piped_ffmpeg(data: bytes, *arguments: str | Path) -> bytes:
    """What ffmpeg writes to its output from `data` at its input; raises if it fails."""
    command = [get_ffmpeg_exe(), "-v", "error", *map(str, arguments)]
    return subprocess.run(command, input=data, capture_output=True, check=True, timeout=600).stdout


PIECE_BYTES = 16_384


class _Quiet(SimpleHTTPRequestHandler):
    bytes_per_second = 0
    """0: as fast as it goes."""

    extensions_map = {  # noqa: RUF012 # as the base class has it
        **SimpleHTTPRequestHandler.extensions_map,
        ".ogg": "audio/ogg",
        ".webm": "audio/webm",
    }

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Evenly, if it must not go too fast."""
        if not self.bytes_per_second:
            super().copyfile(source, outputfile)
            return
        began, sent = monotonic(), 0
        while piece := source.read(PIECE_BYTES):
            outputfile.write(piece)
            sent += len(piece)
            sleep(max(0.0, began + sent / self.bytes_per_second - monotonic()))

    def log_message(self, format: str, *args: object) -> None:
        """The mesh has logs of its own."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A reader that has seen enough hangs up; that is no error."""


@contextmanager
def served(folder: Path, *, bytes_per_second: int = 0) -> Iterator[str]:
    """The address of a web server on loopback that has the files of a folder."""
    handler = type("_Paced", (_Quiet,), {"bytes_per_second": bytes_per_second})
    server = _Server(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
