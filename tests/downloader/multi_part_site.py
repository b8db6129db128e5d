"""A child with an extractor for one more site, whose recordings come in parts.

The page lists the parts, one address a line, as some broadcasters do. Only the extractor is ours;
the rest is yt-dlp.
"""

from typing import Any

from downloader.commands import Command
from downloader.commands import run_child as real_run_child


def run_child(command: Command, media: Any, control: Any) -> None:
    """The entry point of a child, with that extractor added."""
    from yt_dlp.extractor.common import InfoExtractor

    from downloader.child.ytdlp_client import YtDlpClient

    class PartsIE(InfoExtractor):  # type: ignore[misc] # ships no types
        _VALID_URL = r"http://127\.0\.0\.1:\d+/(?P<id>\w+)\.parts$"

        def _real_extract(self, url: str) -> Any:
            name = self._match_id(url)
            lines = self._download_webpage(url, name).split()
            entries = [self.url_result(line) for line in lines]
            return self.playlist_result(entries, name, "A film in parts", multi_video=True)

    add_default = YtDlpClient.add_default_info_extractors

    def add_ours_first(client: Any) -> None:
        client.add_info_extractor(PartsIE())
        add_default(client)

    YtDlpClient.add_default_info_extractors = add_ours_first  # type: ignore[assignment, method-assign]
    real_run_child(command, media, control)
