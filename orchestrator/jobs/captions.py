"""Caption files as the contracts know them: what is asked for, checked; what is kept, rendered."""

from collections.abc import Sequence
from typing import TypeAlias

from google.protobuf.duration_pb2 import Duration

from captions import formats
from captions.formats import Format
from captions.model import Segment, Transcript, Word
from captions.rules import DURATIONS, LIMITS, Rules, changed, rules_for
from captions.translation import translated
from mesh.errors import InvalidRequestError, NotFoundError, UnsupportedError
from mesh.languages import tag_of
from mesh.reasons import Reason
from ytcaption.v1 import job_pb2, media_pb2

FormatId: TypeAlias = "media_pb2.CaptionFormat.ValueType"

_FORMATS = {
    media_pb2.CAPTION_FORMAT_UNSPECIFIED: formats.SRT,
    media_pb2.CAPTION_FORMAT_SRT: formats.SRT,
    media_pb2.CAPTION_FORMAT_VTT: formats.VTT,
    media_pb2.CAPTION_FORMAT_TXT: formats.TXT,
    media_pb2.CAPTION_FORMAT_JSON: formats.JSON,
    media_pb2.CAPTION_FORMAT_TSV: formats.TSV,
    media_pb2.CAPTION_FORMAT_LRC: formats.LRC,
}


def format_for(job: job_pb2.Job, format_: FormatId, *, word_cues: bool) -> Format:
    """How to make the file; raises if it cannot be made of this job."""
    if format_ not in _FORMATS:
        raise UnsupportedError(
            f"captions cannot be had as format {format_}", reason=Reason.OPTION_UNSUPPORTED
        )
    if not word_cues:
        return _FORMATS[format_]
    if format_ != media_pb2.CAPTION_FORMAT_VTT:
        raise InvalidRequestError("word_cues are for VTT only", reason=Reason.REQUEST_INVALID)
    if not job.options.word_timestamps:
        raise InvalidRequestError(
            "the words have no times: the job was run without word_timestamps",
            reason=Reason.REQUEST_INVALID,
        )
    return formats.VTT_BY_WORD


def rules_in_force(language: str, *asked: media_pb2.CueRules) -> Rules:
    """The usual rules of the language but for what was asked; of two wishes the later counts."""
    limits: dict[str, float] = {}
    try:
        for one in asked:
            limits |= _limits(one)
        return changed(rules_for(language), **limits)
    except ValueError as error:
        raise InvalidRequestError(f"cue_rules: {error}", reason=Reason.REQUEST_INVALID) from error


def _limits(asked: media_pb2.CueRules) -> dict[str, float]:
    given = {name: getattr(asked, name) for name in LIMITS if asked.HasField(name)}  # type: ignore[arg-type]
    return {
        name: value.ToMilliseconds() if name in DURATIONS else value
        for name, value in given.items()
    }


def from_wire(transcript: media_pb2.Transcript) -> Transcript:
    """The kept text as captions are made of it."""
    known = transcript.HasField("language_probability")
    return Transcript(
        segments=tuple(map(_segment, transcript.segments)),
        language=transcript.language,
        language_probability=transcript.language_probability if known else None,
        duration=_ms(transcript.duration),
        model=transcript.model,
        language_out=transcript.language_out,
    )


def is_translated(transcript: Transcript | media_pb2.Transcript) -> bool:
    """Whether anything of it was."""
    return any(segment.translation for segment in transcript.segments)


def translated_into(transcript: Transcript | media_pb2.Transcript, wished: str) -> str:
    """The language of its translations; empty if there are none, for a wish is none.

    An attempt that was resumed may have translated nothing itself, and then names no language.
    """
    if not is_translated(transcript):
        return ""
    return transcript.language_out or tag_of(wished)


def in_translation(transcript: Transcript) -> Transcript:
    """What was translated; raises if nothing was."""
    if not is_translated(transcript):
        raise NotFoundError("nothing of this job was translated", reason=Reason.NOT_TRANSLATED)
    return translated(transcript)


def _segment(segment: media_pb2.Segment) -> Segment:
    return Segment(
        start=_ms(segment.start_offset),
        end=_ms(segment.end_offset),
        text=segment.text,
        words=_words(segment.words),
        confidence=segment.confidence if segment.HasField("confidence") else None,
        language=segment.language,
        translation=segment.translation,
    )


def _words(words: Sequence[media_pb2.Word]) -> tuple[Word, ...]:
    return tuple(
        Word(
            start=_ms(word.start_offset),
            end=_ms(word.end_offset),
            text=word.text,
            confidence=word.confidence if word.HasField("confidence") else None,
        )
        for word in words
    )


def _ms(duration: Duration) -> int:
    return round(duration.seconds * 1000 + duration.nanos / 1_000_000)
