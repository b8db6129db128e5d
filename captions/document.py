"""The transcript as JSON: segments and words as transcribed, and the cues made from them."""

import json
from collections.abc import Sequence

from captions.model import Cue, Segment, Transcript, Word
from captions.text import run_on


def document(transcript: Transcript, cues: Sequence[Cue]) -> str:
    """Times in seconds; the cue rules do not change segments and words."""
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
