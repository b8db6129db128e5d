"""Translated captions: everything that was translated, at the time it was said."""

from captions.model import Segment, Transcript
from captions.translation import translated


def _pt(start: int, end: int, translation: str = "") -> Segment:
    return Segment(start, end, "dito", language="pt", translation=translation)


def _told(*segments: Segment) -> list[tuple[int, int, str]]:
    found = translated(Transcript(segments, language="pt", language_out="en"))
    assert found.language == "en"
    return [(segment.start, segment.end, segment.text) for segment in found.segments]


def test_each_translation_keeps_the_time_of_what_was_said() -> None:
    said = [_pt(0, 1000, "one"), _pt(1500, 2000, "two")]
    assert _told(*said) == [(0, 1000, "one"), (1500, 2000, "two")]


def test_what_was_translated_with_its_neighbour_lends_it_its_time() -> None:
    said = [_pt(0, 1000, "one and two"), _pt(1000, 2000), _pt(2000, 3000, "three")]
    assert _told(*said) == [(0, 2000, "one and two"), (2000, 3000, "three")]


def test_a_neighbour_that_follows_begins_where_the_first_was_said() -> None:
    assert _told(_pt(0, 1000), _pt(1000, 2000, "both")) == [(0, 2000, "both")]


def test_what_was_said_in_the_other_language_stays_as_it_is() -> None:
    english = Segment(1000, 2000, "Hello", language="en")
    assert _told(_pt(0, 1000, "one"), english) == [(0, 1000, "one"), (1000, 2000, "Hello")]
