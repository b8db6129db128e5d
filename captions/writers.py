"""Writers of the caption formats: each turns cues, or a transcript, into the text of a file."""

import csv
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from io import StringIO

import pysubs2
from pysubs2.formats.webvtt import WebVTTFormat

from captions.boundaries import ends_sentence
from captions.model import Cue, Segment, Token, Transcript, Word
from captions.text import clean, run_on

SILENCE_MS = 1000
"""Players show a lyric until the next line: after a longer silence an empty line clears it."""
_STAMP = re.compile(r"[\[<](\s*\d+:[^\]>]*)[\]>]")
PAUSE_MS = 2000
"""A sentence followed by such a silence ends its paragraph."""
LONG_PAUSE_MS = 4000
"""Such a silence ends the paragraph anywhere."""
LONG = 500
"""Characters after which a paragraph ends with the next sentence."""
TOO_LONG = 1000
"""Characters after which it ends anywhere: some transcripts have no full stops."""


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


def tsv(cues: Sequence[Cue]) -> str:
    """TSV: start and end in milliseconds, and the text, under a header."""
    file = StringIO()
    table = csv.writer(file, dialect="excel-tab", lineterminator="\n")
    table.writerow(("start", "end", "text"))
    table.writerows((cue.start, cue.end, cue.text) for cue in cues)
    return file.getvalue()


def lrc(cues: Sequence[Cue]) -> str:
    """LRC lyrics: a timestamp, then the text."""
    found = []
    for cue, after in itertools.zip_longest(cues, cues[1:]):
        # Text that looks like a timestamp would be read as one.
        text = _STAMP.sub(r"(\1)", cue.text)
        found.append(f"{_stamp(cue.start)}{text}\n")
        if after is None or after.start - cue.end > SILENCE_MS:
            found.append(f"{_stamp(cue.end)}\n")
    return "".join(found)


def _stamp(ms: int) -> str:
    minutes, rest = divmod(ms // 10, 6000)
    return f"[{minutes:02}:{rest // 100:02}.{rest % 100:02}]"


def txt(segments: Sequence[Segment]) -> str:
    """Plain text: paragraphs, each on one line, an empty line between them."""
    return "\n\n".join(map(run_on, _paragraphs(segments))) + "\n" if segments else ""


def _paragraphs(segments: Sequence[Segment]) -> Iterator[list[str]]:
    spoken = [(segment, text) for segment in segments if (text := clean(segment.text))]
    paragraph: list[str] = []
    for (segment, text), (after, following) in itertools.pairwise(spoken):
        paragraph.append(text)
        length = sum(map(len, paragraph))
        silence = after.start - segment.end
        ended = ends_sentence(text.rpartition(" ")[2], following)
        enough = silence >= PAUSE_MS or length >= LONG
        if (ended and enough) or silence >= LONG_PAUSE_MS or length >= TOO_LONG:
            yield paragraph
            paragraph = []
    yield [*paragraph, *(text for _, text in spoken[-1:])]


def document(transcript: Transcript, cues: Sequence[Cue]) -> str:
    """JSON: segments and words as transcribed, and the cues made from them.

    Times in seconds; the cue rules do not change segments and words.
    """
    whole = {
        "text": run_on(segment.text for segment in transcript.segments),
        "language": transcript.language,
        "language_probability": _rounded(transcript.language_probability),
        "duration": _seconds(transcript.duration),
        "model": transcript.model,
        **({"language_out": transcript.language_out} if transcript.language_out else {}),
        "segments": [_segment(segment) for segment in transcript.segments],
        "cues": [
            {
                "start": _seconds(cue.start),
                "end": _seconds(cue.end),
                "text": "\n".join(cue.lines),
            }
            for cue in cues
        ],
    }
    return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"


def _segment(segment: Segment) -> dict[str, object]:
    found: dict[str, object] = _timed(segment)
    if segment.uncertain:
        found["uncertain"] = True
    if segment.translation:
        found["translation"] = segment.translation
    if segment.words:
        found["words"] = [_timed(word) for word in segment.words]
    return found


def _timed(spoken: Segment | Word) -> dict[str, object]:
    found: dict[str, object] = {
        "start": _seconds(spoken.start),
        "end": _seconds(spoken.end),
        "text": spoken.text,
    }
    if spoken.confidence is not None:
        found["confidence"] = _rounded(spoken.confidence)
    return found


def _seconds(ms: int) -> float:
    return round(ms / 1000, 3)


def _rounded(probability: float | None) -> float | None:
    return None if probability is None else round(probability, 4)
