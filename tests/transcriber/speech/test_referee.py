"""The referee finds what is wrong with a decode from its text and times alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transcriber.speech.referee import (
    Fault,
    doubled_words,
    faults,
    find_loops,
    has_speech,
    unheard,
    without_loops,
)

SPOKEN = (
    "He hoped there would be stew for dinner, turnips and carrots and bruised potatoes and fat "
    "mutton pieces, to be ladled out in thick, peppered, flour-fattened sauce."
)
UNITS = st.one_of(
    st.text("abcdefghijklmnop", min_size=1, max_size=3),
    st.text("abcdefghijklmnop", min_size=4, max_size=12),
    st.lists(st.text("abcdefghijklmnop", min_size=2, max_size=8), min_size=2, max_size=6).map(
        " ".join
    ),
)
"""Syllables, words and phrases."""


@given(
    unit=UNITS,
    separator=st.sampled_from(["", " ", "-", ", ", ". ", "… "]),
    times=st.integers(8, 60),
)
def test_a_loop_of_any_unit_inside_good_text_is_found_and_cut_short(
    unit: str, separator: str, times: int
) -> None:
    text = f"{SPOKEN[:60]} {separator.join([unit] * times)} {SPOKEN[60:]}"

    assert find_loops(text)
    (shorter,) = without_loops([text])
    assert not find_loops(shorter)
    assert len(shorter) < len(text)
    assert shorter.startswith(SPOKEN[:60])


@given(words=st.lists(st.integers(100, 999).map(lambda n: f"w{n}x"), unique=True, max_size=60))
def test_text_without_repetition_is_left_as_it_is(words: list[str]) -> None:
    text = " ".join(words)

    assert find_loops(text) == []
    assert without_loops([text]) == [text]


def test_a_loop_across_phrases_is_cut_short() -> None:
    phrases = [" Yes.", *[" Thank you very much."] * 6, " Goodbye."]

    left = [phrase for phrase in without_loops(phrases) if any(map(str.isalnum, phrase))]

    assert left == [" Yes.", " Thank you very much.", " Thank you very much", " Goodbye."]


@pytest.mark.parametrize(
    "text",
    [
        "No, no, no, no, no.",
        "Ha ha ha ha ha ha.",
        "It was very, very, very good.",
        "I know. I know. I know.",
        "It costs 1,000,000,000 dollars.",
        "Mississippi, banana, cocoon, bookkeeper.",
        SPOKEN,
    ],
)
def test_repetition_that_people_say_is_no_loop(text: str) -> None:
    assert find_loops(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "ladled out in thick-p-p-p-p-p-p-p-p-p-p-p-p peppered flour",
        "and so on and so on and so on and so on and so on",
        "तो लो लो लो लो लो लो लो लो लो लो",
        "谢谢谢谢谢谢谢谢谢谢谢谢",
        "Thank you. Thank you. Thank you. Thank you. Thank you. Thank you.",
    ],
)
def test_a_loop_is_found_in_any_script(text: str) -> None:
    assert faults(text, [(0, 30)], [(0, 30)]) == {Fault.REPEATS}


@pytest.mark.parametrize(
    ("text", "doubled"),
    [
        ("until the, the resonant", {"the"}),
        ("Or or OR or president", {"or"}),
        ("No, no! It was there. There it was.", {"no", "there"}),
        ("anak-anak makan kupu-kupu", set()),
        ("the cat and the dog", set()),
        ("", set()),
    ],
)
def test_a_word_that_follows_itself_is_found_whatever_stands_between(
    text: str, doubled: set[str]
) -> None:
    assert doubled_words(text) == doubled


def test_more_text_than_the_speech_has_time_for_is_a_fault() -> None:
    assert faults(SPOKEN, [(0, 10)], [(0, 9)]) == frozenset()
    assert Fault.TOO_MUCH_TEXT in faults(SPOKEN, [(0, 3)], [(0, 3)])
    assert Fault.TOO_MUCH_TEXT in faults("廣州市房地產中介協會分析" * 2, [(0, 0.5)], [(0, 0.5)])


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [
        ([(0.0, 10.0)], 0.0),
        ([(0.0, 8.5)], 1.5),
        ([(2.0, 10.0)], 1.5),
        ([(0.0, 4.0), (6.0, 10.0)], 1.0),
        ([], 8.5),
    ],
    ids=["all", "not the end", "not the beginning", "not the middle", "nothing"],
)
def test_speech_without_text_is_measured_in_its_longest_stretch(
    spans: list[tuple[float, float]], seconds: float
) -> None:
    speech = [(0.5, 5.0), (6.0, 10.0)]

    assert unheard(spans, speech) == seconds


def test_words_are_missing_where_speech_has_no_text() -> None:
    assert Fault.WORDS_MISSING in faults("and likewise", [(0, 2)], [(0.3, 3.5)])
    assert Fault.WORDS_MISSING not in faults("and likewise a leech", [(0, 3.2)], [(0.3, 3.5)])


def test_a_phrase_has_speech_if_anything_is_spoken_during_it() -> None:
    speech = [(2.0, 4.0)]

    assert has_speech((1.0, 2.5), speech)
    assert has_speech((1.0, 1.8), speech), "it ends just before its speech"
    assert not has_speech((4.0, 6.0), speech)
