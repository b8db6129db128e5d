"""Captions a human made for a recording, in a wanted language; what machines made never counts."""

import html
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pysubs2

from downloader import facts
from downloader.errand import Errand, Say
from downloader.guard import Guard
from downloader.order import CaptionsOrder
from downloader.recording import OneRecording, refuse_other_programs

MAX_CAPTION_BYTES = 32 * 1024**2
MAX_CAPTION_TEXT = 2000

PARSERS = {"vtt": "vtt", "srt": "srt", "ttml": "ttml", "ass": "ass", "ssa": "ssa"}
"""By file extension, best first: what pysubs2 calls it. The others are formats of single sites."""

NOT_CAPTIONS = frozenset({"live_chat", "danmaku", "comments", "rechat"})

Info = dict[str, Any]


class Captions(Errand):
    """One search for captions."""

    def __init__(self, order: CaptionsOrder, guard: Guard, say: Say) -> None:
        super().__init__(order, guard, say)
        self._order = order

    def run(self) -> Info:
        """Says what it found, the track, each caption, and returns how many there were."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_CAPTION_BYTES, MAX_CAPTION_BYTES))
        refuse_other_programs()
        options = {"noplaylist": True, "ignore_no_formats_error": True, "writesubtitles": True}
        with self.visit(OneRecording, **options) as site:
            site.max_seconds = self._order.max_seconds
            info = site.extract_info(self._order.source_url, download=False)
            self.say("found", **facts.describe(info))
            for language in chosen(info, self._order.languages):
                for track in _readable(info["subtitles"][language]):
                    if cues := self._cues(site, info, track):
                        return self._tell(language, track, cues)
        return {"found": False, "count": 0}

    def _tell(self, language: str, track: Info, cues: list[tuple[float, float, str]]) -> Info:
        self.say("track", language=language, name=facts.text(track.get("name")))
        for start, end, text in cues:
            self.say("cue", start=start, end=end, text=text, language=language)
        return {"found": True, "count": len(cues)}

    def _cues(self, site: OneRecording, info: Info, track: Info) -> list[tuple[float, float, str]]:
        text = track.get("data")
        if text is None:
            file = Path(f"captions.{track['ext']}")
            file.unlink(missing_ok=True)
            site.dl(str(file), {"http_headers": info.get("http_headers"), **track}, subtitle=True)
            text = file.read_text(encoding="utf-8-sig", errors="replace")
        return list(cues_in(text, PARSERS[track["ext"]]))


def chosen(info: Info, wanted: tuple[str, ...]) -> Iterator[str]:
    """The languages to try, best first."""
    there = [each for each in info.get("subtitles") or {} if each not in NOT_CAPTIONS]
    if not wanted:
        own = str(info.get("language") or "")
        wanted = (own,) if own else tuple(there if len(there) == 1 else ())
    for tag in wanted:
        for fits in (_same, _is_a_form_of, _is_the_root_of):
            yield from (each for each in there if fits(each, tag))


def cues_in(text: str, parser: str) -> Iterator[tuple[float, float, str]]:
    """Start, end and text of each caption in time order; nothing if the text makes no sense."""
    try:
        events = pysubs2.SSAFile.from_string(text, format_=parser)
    except Exception:  # noqa: BLE001 - strangers' files; transcribing is the way out
        return
    for event in sorted(events, key=lambda each: (each.start, each.end)):
        said = " ".join(html.unescape(event.plaintext).split())
        if said and not event.is_comment and 0 <= event.start <= event.end:
            yield event.start / 1000, event.end / 1000, facts.text(said, MAX_CAPTION_TEXT)


def _readable(tracks: list[Info]) -> list[Info]:
    order = list(PARSERS)
    return sorted(
        (each for each in tracks if each.get("ext") in PARSERS),
        key=lambda each: order.index(each["ext"]),
    )


def _same(there: str, wanted: str) -> bool:
    return there.lower() == wanted.lower()


def _is_a_form_of(there: str, wanted: str) -> bool:
    """pt-BR is a form of pt."""
    return there.lower().startswith(f"{wanted.lower()}-")


def _is_the_root_of(there: str, wanted: str) -> bool:
    return wanted.lower().startswith(f"{there.lower()}-")
