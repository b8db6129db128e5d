"""judge() reports every broken rule, and only those."""

import pytest

from benchmarks.cue_judge import judge, within_reading_speed
from captions.model import Cue
from captions.rules import Rules, changed, rules_for
from captions.text import width

GOOD = Cue(0, 2000, ("Hello, and welcome.",))


@pytest.mark.parametrize(
    ("cue", "fault"),
    [
        (Cue(3000, 5000, ("a", "b", "c")), "3 lines"),
        (Cue(3000, 5000, ()), "0 lines"),
        (Cue(3000, 5000, ("",)), "'' is not a line"),
        (Cue(3000, 5000, ("x" * 43,)), f"'{'x' * 43}' is too long"),
        (Cue(3000, 3833, ("a",)), "833 ms on the screen"),
        (Cue(3000, 10_001, ("a",)), "7001 ms on the screen"),
        (Cue(2079, 4000, ("a",)), "79 ms after the one before"),
        (Cue(1000, 4000, ("a",)), "-1000 ms after the one before"),
    ],
)
def test_a_broken_hard_rule_is_named(cue: Cue, fault: str) -> None:
    verdict = judge([GOOD, cue], Rules())

    assert verdict.faults == (f"cue 2: {fault}",)
    assert verdict.hard_share == 0.5


def test_cues_exactly_at_the_limit_of_every_rule_pass() -> None:
    found = [Cue(0, 834, ("x",)), Cue(914, 7914, ("x" * 42, "y" * 42))]

    verdict = judge(found, Rules())

    assert (verdict.hard_share, verdict.speed_share, verdict.faults) == (1, 1, ())


@pytest.mark.parametrize(("letters", "readable"), [(40, True), (41, False)])
def test_the_reading_speed_counts_every_character(letters: int, readable: bool) -> None:
    assert within_reading_speed(Cue(0, 2000, ("x" * letters,)), Rules()) is readable


def test_a_line_break_counts_as_a_space() -> None:
    assert within_reading_speed(Cue(0, 2000, ("x" * 20, "x" * 19)), Rules())
    assert not within_reading_speed(Cue(0, 2000, ("x" * 20, "x" * 20)), Rules())


def test_no_cues_break_no_rule() -> None:
    assert (judge([], Rules()).hard_share, judge([], Rules()).speed_share) == (1, 1)


@pytest.mark.parametrize(
    ("tag", "length", "speed"),
    [("en", 42, 20), ("pt-BR", 42, 20), ("zh-Hant", 16, 11), ("JA", 16, 7), ("ko", 16, 14),
     ("th", 35, 20), ("", 42, 20)],
)  # fmt: skip
def test_a_language_has_its_usual_limits(tag: str, length: int, speed: float) -> None:
    rules = rules_for(tag)

    assert (rules.max_line_length, rules.max_characters_per_second) == (length, speed)


def test_full_width_limits_count_half_width_letters_half() -> None:
    long = Cue(0, 7000, ("字" * 10 + "x" * 13,))

    assert judge([Cue(0, 7000, ("字" * 16,))], rules_for("ja")).hard_share == 1
    assert judge([Cue(0, 7000, ("字" * 10 + "x" * 12,))], rules_for("ja")).hard_share == 1
    assert judge([long], rules_for("ja")).hard_share == 0


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("e\u0301", 1), ("字幕", 4), ("👍🏽", 2), ("ก็", 1), ("שָׁלוֹם", 4), ("", 0)],
)
def test_combining_marks_take_no_columns_and_full_width_letters_two(
    text: str, columns: int
) -> None:
    assert width(text) == columns


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_lines": 0}, "max_lines must be 1 to 4"),
        ({"max_line_length": 7}, "max_line_length must be 8 to 100"),
        (
            {"max_characters_per_second": float("nan")},
            "max_characters_per_second must be 1 to 100",
        ),
        ({"min_gap": -1}, "min_gap must be 0 to 1000 ms"),
        (
            {"min_duration": 3000, "max_duration": 2000},
            "max_duration must be at least min_duration",
        ),
    ],
)
def test_limits_out_of_range_are_refused(limits: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        changed(Rules(), **limits)


def test_an_unset_limit_keeps_its_default() -> None:
    assert changed(rules_for("th"), max_lines=1, max_line_length=None).max_line_length == 35
