"""The registry of caption formats: every file format captions can be written in.

To add a format: a value of the `CaptionFormat` enum in the contract, a function in
`captions/writers.py`, and one entry in `FORMATS`. Everything else (validation, HTTP, the page, the
command) is derived from them. Importing this module is cheap, because the command needs the names
for `--help`: the writers are imported when a file is rendered.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from captions.model import Cue, Transcript
    from captions.rules import Rules

Renderer: TypeAlias = "Callable[[Transcript, Rules], str]"


@dataclass(frozen=True, slots=True)
class Format:
    """One file format and its writer."""

    name: str
    """The suffix of its files, and the name of its `CaptionFormat` value in lower case."""
    media_type: str
    description: str
    """One line for people, in English."""
    render: Renderer
    render_words: "Renderer | None" = None
    """Writes a time before each word; None if the format has no such notation."""
    usual: bool = False
    """Written if a caller asks for files and names no format."""

    @property
    def suffix(self) -> str:
        """The suffix of its files, without a dot."""
        return self.name

    @property
    def word_cues(self) -> bool:
        """Whether the format can carry a time for each word."""
        return self.render_words is not None

    def with_word_cues(self) -> "Format":
        """The same format with a time before each word."""
        if self.render_words is None:
            raise ValueError(f"{self.name} has no word cues")
        return replace(self, render=self.render_words)


def cues_of(transcript: "Transcript", rules: "Rules") -> "list[Cue]":
    """The cues of a transcript under the given rules."""
    from captions.cues import cues

    return cues(
        transcript.segments, rules, language=transcript.language, duration=transcript.duration
    )


def _from_cues(writer: str) -> Renderer:
    """The renderer that passes the cues to this function of `captions.writers`."""

    def render(transcript: "Transcript", rules: "Rules") -> str:
        from captions import writers

        return str(getattr(writers, writer)(cues_of(transcript, rules)))

    return render


def _txt(transcript: "Transcript", _: "Rules") -> str:
    from captions.writers import txt

    return txt(transcript.segments)


def _json(transcript: "Transcript", rules: "Rules") -> str:
    from captions.writers import document

    return document(transcript, cues_of(transcript, rules))


DEFAULT = "srt"
"""The format of a request that names none."""

FORMATS = {
    entry.name: entry
    for entry in (
        Format(
            "srt",
            "application/x-subrip",
            "Subtitles for nearly every player",
            _from_cues("srt"),
            usual=True,
        ),
        Format(
            "vtt",
            "text/vtt",
            "Subtitles for the web",
            _from_cues("vtt"),
            render_words=_from_cues("vtt_with_words"),
            usual=True,
        ),
        Format("txt", "text/plain; charset=utf-8", "Plain text in paragraphs", _txt, usual=True),
        Format("json", "application/json", "Everything, for programs", _json, usual=True),
        Format("tsv", "text/tab-separated-values", "A table", _from_cues("tsv")),
        Format("lrc", "application/x-lrc", "Lyrics", _from_cues("lrc")),
    )
}
"""Every format under its name, in the order of the `CaptionFormat` enum."""
