"""Captions task: finds human-made captions in a requested language; ignores automatic ones."""

import html
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pysubs2

from downloader import metadata
from downloader.child.download import SingleVideoClient, refuse_other_programs
from downloader.child.task import ChildTask
from downloader.commands import CaptionsCommand
from mesh.errors import InvalidRequestError
from mesh.languages import canonical

MAX_CAPTION_BYTES = 32 * 1024**2
MAX_CAPTION_TEXT = 2000

PARSERS = {"vtt": "vtt", "srt": "srt", "ttml": "ttml", "ass": "ass", "ssa": "ssa"}
"""pysubs2 format by file extension, best first. Formats of single sites are not read."""

NOT_CAPTIONS = frozenset({"live_chat", "danmaku", "comments", "rechat"})

Info = dict[str, Any]


class CaptionsTask(ChildTask[CaptionsCommand]):
    """Looks for captions of one recording."""

    def run(self) -> Info:
        """Sends the metadata, the track and each cue; returns how many cues there were."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_CAPTION_BYTES, MAX_CAPTION_BYTES))
        refuse_other_programs()
        options = {"noplaylist": True, "ignore_no_formats_error": True, "writesubtitles": True}
        with self.open_client(SingleVideoClient, **options) as client:
            client.max_seconds = self._command.max_seconds
            info = client.extract_info(self._command.source_url, download=False)
            self.send("found", **metadata.to_json(info))
            for language in preferred_languages(info, self._command.languages):
                for track in _readable(info["subtitles"][language]):
                    if cues := self._cues(client, info, track):
                        return self._send_cues(language, track, cues)
        return {"found": False, "count": 0}

    def _send_cues(self, language: str, track: Info, cues: list[tuple[float, float, str]]) -> Info:
        self.send("track", language=language, name=metadata.text(track.get("name")))
        for start, end, text in cues:
            self.send("cue", start=start, end=end, text=text, language=language)
        return {"found": True, "count": len(cues)}

    def _cues(
        self, client: SingleVideoClient, info: Info, track: Info
    ) -> list[tuple[float, float, str]]:
        text = track.get("data")
        if text is None:
            file = Path(f"captions.{track['ext']}")
            file.unlink(missing_ok=True)
            client.dl(str(file), {"http_headers": info.get("http_headers"), **track}, subtitle=True)
            text = file.read_text(encoding="utf-8-sig", errors="replace")
        return list(parse_cues(text, PARSERS[track["ext"]]))


def preferred_languages(info: Info, requested: tuple[str, ...]) -> Iterator[str]:
    """The languages of the recording's captions to try, best first.

    Without a request: the recording's own language, else the only one there is.
    """
    available = [each for each in info.get("subtitles") or {} if each not in NOT_CAPTIONS]
    if not requested:
        own = str(info.get("language") or "")
        requested = (own,) if own else tuple(available if len(available) == 1 else ())
    for tag in map(str.lower, requested):
        # The same tag, one that means the same (zh-TW for zh-Hant), a regional variant of it (pt-BR
        # for pt), then its base (pt for pt-BR).
        yield from (each for each in available if each.lower() == tag)
        if "-" in tag:
            yield from (each for each in available if each.lower() != tag == _meaning(each).lower())
        yield from (each for each in available if each.lower().startswith(f"{tag}-"))
        yield from (each for each in available if tag.startswith(f"{each.lower()}-"))


def _meaning(tag: str) -> str:
    try:
        return canonical(tag)
    except InvalidRequestError:  # sites use tags of their own
        return ""


def parse_cues(text: str, parser: str) -> Iterator[tuple[float, float, str]]:
    """Start, end and text of each caption in time order; nothing if the text cannot be parsed."""
    try:
        events = pysubs2.SSAFile.from_string(text, format_=parser)
    except Exception:  # noqa: BLE001 - untrusted files; the recording is transcribed instead
        return
    for event in sorted(events, key=lambda each: (each.start, each.end)):
        plain = " ".join(html.unescape(event.plaintext).split())
        if plain and not event.is_comment and 0 <= event.start <= event.end:
            yield event.start / 1000, event.end / 1000, metadata.text(plain, MAX_CAPTION_TEXT)


def _readable(tracks: list[Info]) -> list[Info]:
    """The tracks in formats we can parse, best format first."""
    best_first = list(PARSERS)
    return sorted(
        (each for each in tracks if each.get("ext") in PARSERS),
        key=lambda each: best_first.index(each["ext"]),
    )
