"""Transcripts as caption files."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import pysubs2
from google.protobuf.duration_pb2 import Duration

from mesh.errors import UnsupportedError
from mesh.reasons import Reason
from ytcaption.v1 import media_pb2

FormatId: TypeAlias = "media_pb2.CaptionFormat.ValueType"


@dataclass(frozen=True, slots=True)
class Rendering:
    """How one format is made."""

    suffix: str
    media_type: str
    render: Callable[[media_pb2.Transcript], str]


def rendering_of(format_: FormatId) -> Rendering:
    """The rendering for a format, or UnsupportedError."""
    try:
        return _RENDERINGS[format_ or media_pb2.CAPTION_FORMAT_SRT]
    except KeyError as error:
        raise UnsupportedError(
            f"captions cannot be had as {_name(format_)} yet", reason=Reason.OPTION_UNSUPPORTED
        ) from error


def _name(format_: FormatId) -> str:
    known = format_ in media_pb2.CaptionFormat.values()
    return media_pb2.CaptionFormat.Name(format_) if known else f"format {format_}"


def _seconds(duration: Duration) -> float:
    return round(duration.ToTimedelta().total_seconds(), 3)


def _subtitles(transcript: media_pb2.Transcript, format_: str) -> str:
    file = pysubs2.SSAFile()
    for segment in transcript.segments:
        event = pysubs2.SSAEvent(
            start=segment.start_offset.ToMilliseconds(), end=segment.end_offset.ToMilliseconds()
        )
        # Braces and backslashes would be read as styling.
        event.plaintext = segment.text.replace("{", "(").replace("}", ")").replace("\\", "/")
        file.append(event)
    return str(file.to_string(format_))


def _srt(transcript: media_pb2.Transcript) -> str:
    return _subtitles(transcript, "srt")


def _vtt(transcript: media_pb2.Transcript) -> str:
    return _subtitles(transcript, "vtt")


def _txt(transcript: media_pb2.Transcript) -> str:
    return "".join(f"{segment.text}\n" for segment in transcript.segments)


def _json(transcript: media_pb2.Transcript) -> str:
    whole = {
        "text": " ".join(segment.text for segment in transcript.segments),
        "language": transcript.language,
        "language_probability": (
            round(transcript.language_probability, 4)
            if transcript.HasField("language_probability")
            else None
        ),
        "duration": _seconds(transcript.duration),
        "model": transcript.model,
        "segments": [_segment(segment) for segment in transcript.segments],
    }
    return json.dumps(whole, ensure_ascii=False, indent=2) + "\n"


def _segment(segment: media_pb2.Segment) -> dict[str, object]:
    found: dict[str, object] = {
        "start": _seconds(segment.start_offset),
        "end": _seconds(segment.end_offset),
        "text": segment.text,
    }
    if segment.HasField("confidence"):
        found["confidence"] = round(segment.confidence, 4)
    if segment.words:
        found["words"] = [
            {
                "start": _seconds(word.start_offset),
                "end": _seconds(word.end_offset),
                "text": word.text,
                "confidence": round(word.confidence, 4),
            }
            for word in segment.words
        ]
    return found


_RENDERINGS = {
    media_pb2.CAPTION_FORMAT_SRT: Rendering("srt", "application/x-subrip", _srt),
    media_pb2.CAPTION_FORMAT_VTT: Rendering("vtt", "text/vtt", _vtt),
    media_pb2.CAPTION_FORMAT_TXT: Rendering("txt", "text/plain; charset=utf-8", _txt),
    media_pb2.CAPTION_FORMAT_JSON: Rendering("json", "application/json", _json),
}
