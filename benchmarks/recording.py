"""A long spoken recording made from a short one, and a web server that has it."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

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


class _Quiet(SimpleHTTPRequestHandler):
    extensions_map = {  # noqa: RUF012 # as the base class has it
        **SimpleHTTPRequestHandler.extensions_map,
        ".ogg": "audio/ogg",
    }

    def log_message(self, format: str, *args: object) -> None:
        """The mesh has logs of its own."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A reader that has seen enough hangs up; that is no error."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a web server on loopback that has the files of a folder."""
    server = _Server(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
