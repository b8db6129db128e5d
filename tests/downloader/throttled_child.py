"""A child whose rate limit takes an hour for every block, and whose site takes no time."""

from typing import Any

from downloader.commands import Command
from downloader.commands import run_child as real_run_child


def run_child(command: Command, media: Any, control: Any) -> None:
    """The entry point of a child with a clock of its own."""
    from yt_dlp.downloader.common import FileDownloader

    from downloader.child import download

    now = 0.0

    def slow_down(*_: Any) -> None:
        nonlocal now
        now += 3600

    FileDownloader.slow_down = slow_down
    download.monotonic = lambda: now  # type: ignore[attr-defined] # imported there
    real_run_child(command, media, control)
