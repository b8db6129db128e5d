"""For any speech, however fast, the hard rules hold and no word is lost."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.cue_judge import judge
from captions.cues import cues
from captions.model import Segment, Word
from captions.rules import Rules, rules_for
from tests.captions.speech import (
    LANGUAGES,
    any_rules,
    segment,
    shown,
    spoken_in_order,
    visible,
)

durations = st.just(0) | st.integers(1, 60_000)
languages = st.sampled_from(LANGUAGES)


@settings(max_examples=300)
@given(st.lists(segment(), max_size=6), languages, durations)
def test_cues_keep_the_hard_rules_for_any_speech(
    segments: list[Segment], language: str, duration: int
) -> None:
    rules = rules_for(language)

    found = cues(segments, rules, language=language, duration=duration)

    assert judge(found, rules).faults == ()


@settings(max_examples=200)
@given(st.lists(segment(), max_size=4), any_rules(), languages, durations)
def test_any_limits_a_caller_may_set_are_kept(
    segments: list[Segment], rules: Rules, language: str, duration: int
) -> None:
    found = cues(segments, rules, language=language, duration=duration)

    assert judge(found, rules).faults == ()


@settings(max_examples=300)
@given(st.lists(segment(), max_size=6), any_rules(), languages)
def test_every_word_is_shown_once_and_in_order(
    segments: list[Segment], rules: Rules, language: str
) -> None:
    found = cues(segments, rules, language=language)

    assert shown(found) == visible(segments)
    assert all(line == line.strip() for cue in found for line in cue.lines)
    assert "".join("".join(cue.text.split()) for cue in found) == "".join(
        "".join(line.split()) for cue in found for line in cue.lines
    )


@settings(max_examples=200)
@given(spoken_in_order(), languages)
def test_no_cue_ends_before_its_words_were_spoken(
    segments: tuple[Segment, ...], language: str
) -> None:
    rules = rules_for(language)

    found = cues(segments, rules, language=language)

    for cue in found:
        last = cue.tokens[-1][-1]
        at_once = cue.end - cue.start == rules.max_duration
        assert cue.end >= last.end or at_once or _next_is_due(cue.end, found, rules)


def _next_is_due(end: int, found: list, rules: Rules) -> bool:  # type: ignore[type-arg]
    return any(cue.start - rules.min_gap == end for cue in found)


@given(st.lists(segment(), max_size=4), languages)
@settings(max_examples=50)
def test_the_same_segments_make_the_same_cues(segments: list[Segment], language: str) -> None:
    rules = rules_for(language)

    once = cues(segments, rules, language=language)

    assert cues(segments, rules, language=language) == once


def test_no_speech_makes_no_cues() -> None:
    rules = Rules()

    assert cues([], rules) == []
    assert cues([Segment(0, 5000, " \n\u200b ")], rules) == []


def test_a_recording_shorter_than_a_cue_gets_one_that_is_long_enough() -> None:
    [cue] = cues([Segment(100, 400, "Stop!")], Rules(), duration=500)

    assert (cue.start, cue.end) == (0, 834)


def test_a_cue_at_the_very_end_comes_early_rather_than_run_over() -> None:
    [cue] = cues([Segment(9800, 10_000, "Goodbye.")], Rules(), duration=10_000)

    assert (cue.start, cue.end) == (9166, 10_000)


def test_speech_too_dense_for_the_end_runs_over_it_in_full_cues() -> None:
    text = " ".join(["unbelievably"] * 16)  # 207 characters in a tenth of a second
    rules = Rules()

    found = cues([Segment(59_900, 60_000, text)], rules, duration=60_000)

    assert judge(found, rules).hard_share == 1
    assert found[0].start == 58_900  # a second early, and no more
    assert [cue.end - cue.start for cue in found[1:]] == [rules.min_duration] * (len(found) - 1)
    assert [b.start - a.end for a, b in itertools.pairwise(found)] == [80] * (len(found) - 1)


def test_segments_beyond_the_end_are_shown_at_the_end() -> None:
    [cue] = cues([Segment(70_000, 75_000, "Thank you.")], Rules(), duration=60_000)

    assert (cue.start, cue.end) == (59_166, 60_000)


def test_overlapping_segments_follow_each_other() -> None:
    segments = [Segment(0, 5000, "This takes its time."), Segment(3000, 6000, "So does this.")]

    first, second = cues(segments, Rules())

    assert (first.text, second.text) == ("This takes its time.", "So does this.")
    assert (second.start, first.end) == (3000, 2920)


def test_word_times_place_the_cues() -> None:
    words = (
        Word(0, 400, "Wait."), Word(5000, 5300, "Here"), Word(5300, 5600, "it"),
        Word(5600, 6000, "comes."),
    )  # fmt: skip

    first, second = cues([Segment(0, 6000, "Wait. Here it comes.", words)], Rules())

    assert (first.text, first.start) == ("Wait.", 0)
    assert (second.text, second.start) == ("Here it comes.", 5000)


@pytest.mark.parametrize("language", ["en", "ja", "zh", "ko", "th"])
def test_speech_at_an_easy_pace_can_be_read(language: str) -> None:
    texts = {
        "en": "This is how people speak when they want to be understood by everybody. " * 20,
        "ja": "これから日本語の字幕をどこで区切ればよいのかについてご説明いたします。" * 20,
        "zh": "听说那里新开了一家咖啡馆，里面的蛋糕非常好吃，而且价格也不贵。" * 20,
        "ko": "오늘은 한국어 자막을 어디에서 나누어야 읽기 쉬운지 이야기해 보겠습니다. " * 20,
        "th": "วันนี้อากาศดีมากเราไปเที่ยวกันเถอะครับ ผมอยากไปดูวัด " * 20,
    }
    rules = rules_for(language)
    text = texts[language]
    pace = 1000 / (0.8 * rules.max_characters_per_second)

    found = cues([Segment(0, round(len(text) * pace), text)], rules, language=language)

    assert judge(found, rules).speed_share == 1
