"""SRT and WebVTT, written by pysubs2."""

from collections.abc import Sequence
from html import escape

import pysubs2
from pysubs2.formats.webvtt import WebVTTFormat

from captions.model import Cue, Token


def srt(cues: Sequence[Cue]) -> str:
    """SubRip. It has no escapes: characters that would be markup are replaced by similar ones."""
    return _file("srt", [(cue, "\n".join(map(_for_srt, cue.lines))) for cue in cues])


def vtt(cues: Sequence[Cue]) -> str:
    """WebVTT."""
    return _file("vtt", [(cue, "\n".join(map(_for_vtt, cue.lines))) for cue in cues])


def vtt_with_words(cues: Sequence[Cue]) -> str:
    """WebVTT with a time before each word whose time is known."""
    return _file("vtt", [(cue, "\n".join(_stamped(cue))) for cue in cues])


def _file(format_: str, texts: Sequence[tuple[Cue, str]]) -> str:
    file = pysubs2.SSAFile()
    for cue, text in texts:
        # A backslash would be read as styling, by pysubs2 and by players.
        unstyled = text.replace("\\", "/")
        file.append(pysubs2.SSAEvent(start=cue.start, end=cue.end, text=unstyled))
    return str(file.to_string(format_, keep_ssa_tags=True))


def _for_srt(line: str) -> str:
    return line.replace("<", "‹").replace(">", "›")


def _for_vtt(text: str) -> str:
    return escape(text, quote=False)


def _stamped(cue: Cue) -> list[str]:
    """Lines with word timestamps, each within its cue and after the one before."""
    latest = cue.start

    def written(token: Token, *, first: bool) -> str:
        nonlocal latest
        stamp = ""
        if token.timed and latest < token.start < cue.end:
            latest = token.start
            stamp = f"<{WebVTTFormat.ms_to_timestamp(token.start)}>"
        space = " " if token.spaced and not first else ""
        return space + stamp + _for_vtt(token.text)

    return [
        "".join(written(token, first=not place) for place, token in enumerate(line))
        for line in cue.tokens
    ]
