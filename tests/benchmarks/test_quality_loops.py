"""The loop finder of the quality benchmark."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from benchmarks.quality_loops import (
    MAX_CHARACTERS,
    MAX_WORDS,
    MIN_CHARACTER_TIMES,
    MIN_WORD_TIMES,
    find_loops,
)

LETTERS = "abcdefghij"
WORDS = [first + second for first in LETTERS[:5] for second in LETTERS[5:]]
"""First and second letters differ, so that only whole words repeat."""
unhurried = settings(deadline=None)
different_words = st.lists(st.sampled_from(WORDS), unique=True, max_size=20)
units = st.lists(st.sampled_from(WORDS), unique=True, min_size=1, max_size=MAX_WORDS)


@unhurried
@given(different_words, units, st.integers(MIN_WORD_TIMES, 20), different_words)
def test_a_unit_of_words_repeated_five_times_is_found_anywhere(
    before: list[str], unit: list[str], times: int, after: list[str]
) -> None:
    around = [[word for word in words if word not in unit] for words in (before, after)]

    found = find_loops(" ".join([*around[0], *unit * times, *around[1]]))

    assert any(loop.times == times and [*loop.unit] == unit for loop in found)


@unhurried
@given(st.text(alphabet=LETTERS + " ", max_size=8), st.integers(MIN_CHARACTER_TIMES, 30))
def test_up_to_six_characters_repeated_eight_times_are_found(unit: str, times: int) -> None:
    letters = unit.replace(" ", "")
    assume(0 < len(letters) <= MAX_CHARACTERS)

    assert find_loops(f"before, {letters * times} after")


@unhurried
@given(different_words)
def test_words_that_all_differ_are_no_loop(words: list[str]) -> None:
    assert find_loops(" ".join(words)) == []


@unhurried
@given(units, st.integers(1, MIN_WORD_TIMES - 1))
def test_four_times_is_no_loop(unit: list[str], times: int) -> None:
    assert find_loops(" ".join(unit * times)) == []


@unhurried
@given(units, st.integers(MIN_WORD_TIMES, 20))
def test_what_the_speaker_repeats_is_no_loop_wherever_it_begins(
    unit: list[str], times: int
) -> None:
    repeated = unit * times

    assert find_loops(" ".join([*repeated[1:], unit[0]]), " ".join(repeated)) == []


@unhurried
@given(units, units, st.integers(MIN_WORD_TIMES, 20))
def test_a_loop_of_other_words_than_the_speakers_counts(
    said: list[str], unit: list[str], times: int
) -> None:
    assume({*said} != {*unit})

    assert find_loops(" ".join(unit * times), " ".join(said * times))


@pytest.mark.parametrize(
    ("text", "is_loop"),
    [
        ("No. No, no! NO no", True),
        ("No. No, no! NO", False),
        ("going on, going on. Going on going on going on", True),
        ("hahahahahahahaha", True),
        ("hahahahahahaha", False),
        ("謝謝謝謝謝謝謝謝", True),
        ("謝謝收看謝謝收看", False),
        ("तो लो लो लो लो लो", True),
        ("कि की के को का", False),
        ("I don't, I don't, I don\u2019t. I don't! I don't", True),
        ("........", True),
        ("and so on ...", False),
        ("1 2 3 4 5 6 7 8 9 10 11 12", False),
        ("", False),
    ],
)
def test_loops_as_people_see_them(text: str, is_loop: bool) -> None:
    assert bool(find_loops(text)) is is_loop


def test_a_loop_is_counted_by_its_shortest_unit() -> None:
    (loop,) = find_loops("one two " * 12)[:1]

    assert (loop.unit, loop.times) == (("one", "two"), 12)


def test_without_a_reference_every_repetition_is_a_loop() -> None:
    assert find_loops("no no no no no", None)
    assert not find_loops("no no no no no", "No, no, no, no, no, no!")
