"""Doubts about a transcript become warnings."""

import pytest
from google.protobuf.duration import from_seconds

from mesh.reasons import WarningReason
from orchestrator.jobs.doubts import doubts
from ytcaption.v1 import media_pb2


def transcript(uncertain: dict[int, bool] | None = None, **fields: object) -> media_pb2.Transcript:
    """Segments by the second they begin at, and whether each is uncertain."""
    segments = [
        media_pb2.Segment(start_offset=from_seconds(second), uncertain=doubtful)
        for second, doubtful in (uncertain or {}).items()
    ]
    return media_pb2.Transcript(segments=segments, **fields)  # type: ignore[arg-type]


def test_a_doubtful_language_is_named_with_its_probability() -> None:
    (warning,) = doubts(transcript(language="pt", language_probability=0.414))

    assert warning.reason == WarningReason.LANGUAGE_UNCERTAIN
    assert warning.message == (
        "The language was detected as Portuguese with a probability of 41 %; "
        "name it with `language` if this is wrong."
    )


@pytest.mark.parametrize("certain", [{"language_probability": 0.5}, {}], ids=["detected", "named"])
def test_a_language_detected_with_half_the_probability_or_named_is_no_doubt(
    certain: dict[str, float],
) -> None:
    assert doubts(transcript({0: False}, language="pt", **certain)) == []


def test_uncertain_segments_that_follow_each_other_are_one_passage() -> None:
    found = transcript({0: False, 12: True, 15: True, 20: False, 245: True, 3661: True})

    (warning,) = doubts(found)

    assert warning.reason == WarningReason.TRANSCRIPT_UNCERTAIN
    assert warning.message == "2 passages are uncertain: 0:12, 4:05"


@pytest.mark.parametrize(
    ("passages", "message"),
    [
        (1, "1 passage is uncertain: 0:00"),
        (5, "5 passages are uncertain: 0:00, 0:20, 0:40, 1:00, 1:20"),
        (6, "6 passages are uncertain: 0:00, 0:20, 0:40, 1:00, 1:20 …"),
    ],
)
def test_only_the_first_five_passages_are_named(passages: int, message: str) -> None:
    segments = {10 * number: number % 2 == 0 for number in range(2 * passages)}

    assert [warning.message for warning in doubts(transcript(segments))] == [message]


def test_a_passage_after_an_hour_is_named_with_its_hour() -> None:
    (warning,) = doubts(transcript({3661: True}))

    assert warning.message == "1 passage is uncertain: 1:01:01"
