"""A child that knows one more site, whose recordings come in parts, as those of some broadcasters.

The page names the parts, one address a line. An extractor like this one is the only thing about it
that is not yt-dlp's own.
"""

from typing import Any

from downloader.order import Order
from downloader.order import carry_out as really_carry_out


def carry_out(order: Order, media: Any, control: Any) -> None:
    """What a child does, with that site known."""
    from yt_dlp.extractor.common import InfoExtractor

    from downloader.visitor import Visitor

    class PartsIE(InfoExtractor):  # type: ignore[misc] # ships no types
        _VALID_URL = r"http://127\.0\.0\.1:\d+/(?P<id>\w+)\.parts$"

        def _real_extract(self, url: str) -> Any:
            name = self._match_id(url)
            lines = self._download_webpage(url, name).split()
            entries = [self.url_result(line) for line in lines]
            return self.playlist_result(entries, name, "A film in parts", multi_video=True)

    add_default = Visitor.add_default_info_extractors

    def add_ours_first(site: Any) -> None:
        site.add_info_extractor(PartsIE())
        add_default(site)

    Visitor.add_default_info_extractors = add_ours_first  # type: ignore[assignment, method-assign]
    really_carry_out(order, media, control)
