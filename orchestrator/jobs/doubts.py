"""Doubts about a finished transcript, as warnings of its job."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from mesh.languages import name_of
from mesh.reasons import WarningReason
from ytcaption.v1 import job_pb2, media_pb2

MIN_LANGUAGE_PROBABILITY = 0.5
"""A language detected with a smaller probability is doubtful."""

MAX_PASSAGES = 5
"""So many doubtful passages are named; of more there is only the number."""


def doubts(transcript: media_pb2.Transcript) -> list[job_pb2.Warning]:
    """Warnings that follow from the stored transcript alone: a resumed job has the same ones."""
    found = [
        (WarningReason.LANGUAGE_UNCERTAIN, _about_language(transcript)),
        (WarningReason.TRANSCRIPT_UNCERTAIN, _about_text(list(_passages(transcript.segments)))),
    ]
    return [job_pb2.Warning(reason=reason, message=message) for reason, message in found if message]


def _about_language(transcript: media_pb2.Transcript) -> str:
    is_detected = transcript.HasField("language_probability")
    if not is_detected or transcript.language_probability >= MIN_LANGUAGE_PROBABILITY:
        return ""
    return (
        f"The language was detected as {name_of(transcript.language)} with a probability of "
        f"{100 * transcript.language_probability:.0f} %; name it with `language` if this is wrong."
    )


def _about_text(passages: Sequence[timedelta]) -> str:
    if not passages:
        return ""
    times = ", ".join(map(_clock, passages[:MAX_PASSAGES]))
    more = " …" if len(passages) > MAX_PASSAGES else ""
    what = "1 passage is" if len(passages) == 1 else f"{len(passages)} passages are"
    return f"{what} uncertain: {times}{more}"


def _passages(segments: Sequence[media_pb2.Segment]) -> Iterator[timedelta]:
    """Where each run of doubtful segments begins."""
    follows = False
    for segment in segments:
        if segment.uncertain and not follows:
            yield segment.start_offset.ToTimedelta()
        follows = segment.uncertain


def _clock(offset: timedelta) -> str:
    minutes, seconds = divmod(int(offset.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
