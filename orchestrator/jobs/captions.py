"""Maps caption formats, cue rules and transcripts of the contract to the `captions` package."""

from typing import TypeAlias

from google.protobuf.duration_pb2 import Duration

from captions.formats import DEFAULT, FORMATS, Format
from captions.model import Segment, Transcript, Word, translated
from captions.rules import DURATIONS, LIMITS, Rules, changed, rules_for
from mesh.errors import InvalidRequestError, NotFoundError, UnsupportedError
from mesh.languages import tag_of
from mesh.messages import dataclass_from, enum_name
from mesh.reasons import Reason
from ytcaption.v1 import job_pb2, media_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

FormatId: TypeAlias = "media_pb2.CaptionFormat.ValueType"
_ENUM = media_pb2.CaptionFormat.DESCRIPTOR


def format_for(job: job_pb2.Job, format_: FormatId, *, word_cues: bool = False) -> Format:
    """The format's entry in the registry; raises if this job cannot be written in it."""
    try:
        found = FORMATS[enum_name(_ENUM, format_) if format_ else DEFAULT]
    except KeyError as error:
        raise UnsupportedError(
            f"captions cannot be had as format {format_}", reason=Reason.OPTION_UNSUPPORTED
        ) from error
    if not word_cues:
        return found
    if not found.word_cues:
        able = ", ".join(entry.name for entry in FORMATS.values() if entry.word_cues)
        raise InvalidRequestError(f"{found.name} cannot carry word_cues; {able} can")
    if not job.options.word_timestamps:
        raise InvalidRequestError(
            "the words have no times: the job was run without word_timestamps"
        )
    return found.with_word_cues()


def format_infos() -> list[pb.CaptionFormatInfo]:
    """The registry as callers see it."""
    return [
        pb.CaptionFormatInfo(
            format=media_pb2.CaptionFormat.Value(f"CAPTION_FORMAT_{entry.name.upper()}"),
            name=entry.name,
            suffix=entry.suffix,
            media_type=entry.media_type,
            description=entry.description,
            word_cues=entry.word_cues,
            usual=entry.usual,
        )
        for entry in FORMATS.values()
    ]


def rules_in_force(language: str, *asked: media_pb2.CueRules) -> Rules:
    """The usual rules of the language, overridden by what was asked; later arguments win."""
    limits: dict[str, float] = {}
    try:
        for one in asked:
            limits |= _limits(one)
        return changed(rules_for(language), **limits)
    except ValueError as error:
        raise InvalidRequestError(f"cue_rules: {error}") from error


def _limits(asked: media_pb2.CueRules) -> dict[str, float]:
    given = {name: getattr(asked, name) for name in LIMITS if asked.HasField(name)}  # type: ignore[arg-type]
    return {
        name: value.ToMilliseconds() if name in DURATIONS else value
        for name, value in given.items()
    }


def from_wire(transcript: media_pb2.Transcript) -> Transcript:
    """The stored transcript as the `captions` package takes it."""
    segments = tuple(map(_segment, transcript.segments))
    return dataclass_from(
        Transcript, transcript, segments=segments, duration=_ms(transcript.duration)
    )


def is_translated(transcript: Transcript | media_pb2.Transcript) -> bool:
    """Whether any segment has a translation."""
    return any(segment.translation for segment in transcript.segments)


def translated_into(transcript: Transcript | media_pb2.Transcript, requested: str) -> str:
    """The language of its translations; empty if it has none, whatever was requested.

    A resumed attempt that translated nothing itself names no language: then the requested one.
    """
    if not is_translated(transcript):
        return ""
    return transcript.language_out or tag_of(requested)


def in_translation(transcript: Transcript) -> Transcript:
    """The translation as a transcript of its own; raises if nothing was translated."""
    if not is_translated(transcript):
        raise NotFoundError("nothing of this job was translated", reason=Reason.NOT_TRANSLATED)
    return translated(transcript)


def _segment(segment: media_pb2.Segment) -> Segment:
    start, end = _ms(segment.start_offset), _ms(segment.end_offset)
    words = tuple(map(_word, segment.words))
    return dataclass_from(Segment, segment, start=start, end=end, words=words)


def _word(word: media_pb2.Word) -> Word:
    return dataclass_from(Word, word, start=_ms(word.start_offset), end=_ms(word.end_offset))


def _ms(duration: Duration) -> int:
    return round(duration.seconds * 1000 + duration.nanos / 1_000_000)
