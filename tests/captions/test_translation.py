"""Translated captions hold every translation at the time of its speech."""

from captions.model import Segment, Transcript, translated


def _pt(start: int, end: int, translation: str = "") -> Segment:
    return Segment(start, end, "dito", language="pt", translation=translation)


def _translated(*segments: Segment) -> list[tuple[int, int, str]]:
    found = translated(Transcript(segments, language="pt", language_out="en"))
    assert found.language == "en"
    return [(segment.start, segment.end, segment.text) for segment in found.segments]


def test_each_translation_keeps_the_time_of_its_segment() -> None:
    segments = [_pt(0, 1000, "one"), _pt(1500, 2000, "two")]
    assert _translated(*segments) == [(0, 1000, "one"), (1500, 2000, "two")]


def test_a_segment_translated_with_its_neighbour_extends_the_neighbours_time() -> None:
    segments = [_pt(0, 1000, "one and two"), _pt(1000, 2000), _pt(2000, 3000, "three")]
    assert _translated(*segments) == [(0, 2000, "one and two"), (2000, 3000, "three")]


def test_a_translation_for_two_segments_begins_with_the_first() -> None:
    assert _translated(_pt(0, 1000), _pt(1000, 2000, "both")) == [(0, 2000, "both")]


def test_speech_already_in_the_other_language_is_unchanged() -> None:
    english = Segment(1000, 2000, "Hello", language="en")
    assert _translated(_pt(0, 1000, "one"), english) == [(0, 1000, "one"), (1000, 2000, "Hello")]
