"""A channel on loopback with thirty recordings, some of which fail, stall or are busy."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from itertools import chain, repeat
from pathlib import Path
from threading import Event
from xml.sax.saxutils import quoteattr

from benchmarks.recording import run_ffmpeg
from tests.conftest import DATA
from tests.downloader.site import Answer, Site, content, status

MEMBERS = 30
SECONDS = 2.5
FAILING = {4: "VIDEO_NOT_FOUND", 11: "NO_AUDIO", 19: "CORRUPT_MEDIA"}
"""By number: the permanent failure of each."""
BUSY, BROKEN = 6, 14
"""These fail twice and then succeed."""
HANGING = (2, 9)
UNDATED_AFTER = 12
"""An entry without a publication date follows: the listing must fetch it before it continues."""
PERIOD = "2025-10"
STALL_LIMIT_SECONDS = 300


@dataclass(slots=True)
class Channel:
    """The site, and the events with which a test lets it continue."""

    site: Site
    feed: str = ""
    list_on: Event = field(default_factory=Event)
    """Lets the listing continue."""
    send_on: Event = field(default_factory=Event)
    """Lets the stalled recordings finish."""

    def address(self, number: int) -> str:
        """The address of a recording."""
        return self.site.url(f"/{number}.ogg")

    def title(self, number: int) -> str:
        """A title with markup characters, which readers must show as text."""
        return f"Talk {number} <of {MEMBERS}> & more"

    def was_requested(self, path: str) -> bool:
        """Whether the path has been requested."""
        return path in self.site.hits


@contextmanager
def serving_channel(folder: Path) -> Iterator[Channel]:
    """Serves until the block ends."""
    recordings = make_recordings(folder)
    with Site().running() as site:
        channel = Channel(site)
        for number, recording in recordings.items():
            site.url(f"/{number}.ogg", _behaviour(channel, number, recording))
        site.url("/undated.ogg", _when(channel.list_on, content(b"\0" * 999, "audio/ogg")))
        channel.feed = site.url("/feed.xml", content(_feed(channel), "application/rss+xml"))
        try:
            yield channel
        finally:
            channel.list_on.set()
            channel.send_on.set()


def make_recordings(folder: Path) -> dict[int, bytes]:
    """Overlapping cuts of the same speech, made in one run; and two that are not recordings."""
    outputs: list[str | Path] = []
    for number in range(1, MEMBERS + 1):
        begin = f"{(number - 1) * 0.7:.1f}"
        outputs += ["-ss", begin, "-t", str(SECONDS), "-c:a", "libopus", "-b:a", "24000"]
        outputs.append(folder / f"{number}.ogg")
    run_ffmpeg("-i", DATA / "sample.ogg", *outputs)
    made = {number: (folder / f"{number}.ogg").read_bytes() for number in range(1, MEMBERS + 1)}
    made[11] = _silent_film(folder)
    made[19] = _film_without_index(folder)
    return made


def _silent_film(folder: Path) -> bytes:
    path = folder / "silent.mp4"
    run_ffmpeg("-f", "lavfi", "-i", "testsrc=size=64x64:rate=5:duration=1", path)
    return path.read_bytes()


def _film_without_index(folder: Path) -> bytes:
    path = folder / "cut.mp4"
    run_ffmpeg("-i", DATA / "short.ogg", "-c:a", "aac", path)
    whole = path.read_bytes()
    return whole[: len(whole) * 2 // 3]


def _behaviour(channel: Channel, number: int, recording: bytes) -> Answer:
    good = content(recording, "audio/ogg")
    if number == 4:
        return status(404)
    if number in FAILING:
        return content(recording, "video/mp4")
    if number == BUSY:
        return _in_turn([status(503)] * 2, good)
    if number == BROKEN:
        return _in_turn([_hang_up] * 2, good)
    if number in HANGING:
        return _stuck(channel.send_on, recording)
    return good


def _in_turn(first: list[Answer], later: Answer) -> Answer:
    answers = chain(first, repeat(later))
    return lambda request: next(answers)(request)


def _hang_up(request: BaseHTTPRequestHandler) -> None:
    """Closes the connection before any answer."""
    request.connection.shutdown(socket.SHUT_RDWR)


def _when(event: Event, answer: Answer) -> Answer:
    def later(request: BaseHTTPRequestHandler) -> None:
        event.wait(STALL_LIMIT_SECONDS)
        answer(request)

    return later


def _stuck(resume: Event, recording: bytes) -> Answer:
    """Sends the first half, and the rest when the event is set."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "audio/ogg")
        request.send_header("Content-Length", str(len(recording)))
        request.end_headers()
        half = len(recording) // 2
        request.wfile.write(recording[:half])
        request.wfile.flush()
        resume.wait(STALL_LIMIT_SECONDS)
        request.wfile.write(recording[half:])

    return answer


def _feed(channel: Channel) -> bytes:
    items = [
        _item(channel.title(number), channel.address(number), f"{number:02d} Oct 2025")
        for number in range(1, MEMBERS + 1)
    ]
    items.insert(UNDATED_AFTER, _item("Undated", channel.site.url("/undated.ogg"), ""))
    return f"""<?xml version="1.0"?>
<rss version="2.0"><channel><title>Thirty talks</title>{"".join(items)}</channel></rss>""".encode()


def _item(title: str, address: str, day: str) -> str:
    published = f"<pubDate>{day} 12:00:00 +0000</pubDate>" if day else ""
    return f"""<item><title><![CDATA[{title}]]></title>{published}
<enclosure url={quoteattr(address)} type="audio/ogg"/></item>"""
