"""Every shape captions can be had in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from captions.cues import cues
from captions.document import document
from captions.model import Cue, Transcript
from captions.prose import txt
from captions.rules import Rules
from captions.subtitles import srt, vtt
from captions.tables import lrc, tsv


@dataclass(frozen=True, slots=True)
class Format:
    """How one kind of file is made."""

    suffix: str
    media_type: str
    render: Callable[[Transcript, Rules], str]


def cues_of(transcript: Transcript, rules: Rules) -> list[Cue]:
    """The cues of a transcript."""
    return cues(
        transcript.segments,
        rules,
        language=transcript.language,
        duration=transcript.duration,
    )


def _of_cues(write: Callable[[Sequence[Cue]], str]) -> Callable[[Transcript, Rules], str]:
    return lambda transcript, rules: write(cues_of(transcript, rules))


SRT = Format("srt", "application/x-subrip", _of_cues(srt))
VTT = Format("vtt", "text/vtt", _of_cues(vtt))
VTT_BY_WORD = Format("vtt", "text/vtt", _of_cues(lambda found: vtt(found, word_stamps=True)))
TXT = Format("txt", "text/plain; charset=utf-8", lambda whole, _: txt(whole.segments))
JSON = Format(
    "json", "application/json", lambda whole, rules: document(whole, cues_of(whole, rules))
)
TSV = Format("tsv", "text/tab-separated-values", _of_cues(tsv))
LRC = Format("lrc", "application/x-lrc", _of_cues(lrc))
