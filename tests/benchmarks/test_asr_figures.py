"""What the speech benchmark makes of its runs: errors, medians, verdicts."""

import pytest

from benchmarks.asr_contestants import OURS
from benchmarks.asr_cues import judge_captions
from benchmarks.asr_figures import (
    Row,
    against_bare,
    at_once,
    fastest_bare,
    first_segments,
    long_against_short,
    peak_memory,
    sum_up,
    table,
)
from benchmarks.asr_heard import Heard, Piece
from benchmarks.asr_words import Errors, count_errors
from benchmarks.load_figures import MB
from tests.benchmarks.samples import hearing, recording, row_of


@pytest.mark.parametrize(
    ("said", "heard", "wrong"),
    [
        ("Hello, World!", "hello world", 0),
        ("I don't know the colour", "I do not know the color", 0),
        ("twenty-five years", "25 years", 0),
        ("see the moon", "see them", 2),
        ("blue sky", "blue sky above", 1),
        ("blue sky", "", 2),
    ],
)
def test_errors_are_substitutions_deletions_and_insertions_after_normalising(
    said: str, heard: str, wrong: int
) -> None:
    assert count_errors(said, heard, "en").wrong == wrong


def test_other_languages_keep_their_accents_and_lose_their_punctuation() -> None:
    assert count_errors("Não consegue, não!", "não consegue não", "pt") == Errors(3)
    assert count_errors("não consegue", "nao consegue", "pt").wrong == 1


def test_a_long_recording_weighs_more_than_a_short_one() -> None:
    assert Errors.total([Errors(1, deletions=1), Errors(99)]).percent == 1.0


def test_a_row_has_the_medians_of_its_runs_and_the_highest_peak() -> None:
    runs = [
        hearing(9.0, first=3.0, peak=5),
        hearing(2.0, first=1.0, peak=7),
        hearing(4.0, first=2.0),
    ]

    row = Row.of(recording(), OURS, runs)

    assert (row.wall_seconds, row.first_seconds, row.peak_bytes) == (4.0, 2.0, 7)
    assert row.walls == (9.0, 2.0, 4.0)
    assert row.speed == 2.5


def test_the_errors_of_every_run_count() -> None:
    row = Row.of(recording(), OURS, [hearing(1.0, "blue sky"), hearing(1.0, "blue")])

    assert row.errors == Errors(4, deletions=1)


def test_we_are_judged_by_the_fastest_and_by_the_most_exact_of_the_bare_ways() -> None:
    rows = [
        row_of(OURS, 2.4, text="blue"),
        row_of("sequential", 8.0, text="blue sky"),
        row_of("batched-4", 4.0, text=""),
        row_of("script", 3.0, text="blue sky"),
    ]

    fastest = fastest_bare(rows)
    slower, worse = against_bare(rows, "base")

    assert fastest is not None
    assert fastest.way == "batched-4"
    assert slower.value == pytest.approx(60.0)
    assert slower.target == 60.0
    assert (worse.value, worse.met) == (50.0, False)


def test_a_tiny_model_has_less_to_save() -> None:
    rows = [row_of(OURS, 3.4), row_of("sequential", 4.0)]

    assert [against_bare(rows, name)[0].target for name in ("tiny.en", "small")] == [85.0, 60.0]


def test_the_highest_peak_of_ours_is_judged_with_base() -> None:
    peak = Row.of(recording(), OURS, [hearing(1.0, peak=751 * MB)])
    other = Row.of(recording(), "x", [hearing(1.0, peak=900 * MB)])

    (figure,) = peak_memory([other, peak], "base")

    assert (figure.value, figure.met) == (751.0, False)
    assert all(one.target is None for one in peak_memory([peak], "tiny.en"))
    assert peak_memory([other], "base") == []


def test_without_ours_or_without_the_others_nothing_is_compared() -> None:
    assert against_bare([row_of(OURS, 1.0)], "base") == []
    assert against_bare([row_of("sequential", 1.0)], "base") == []


def test_the_slowest_first_segment_of_ours_is_judged_and_nobody_elses() -> None:
    rows = [row_of(OURS, 9.0, first=3.1), row_of(OURS, 9.0, first=0.5), row_of("x", 9.0, first=8.0)]

    (figure,) = first_segments(rows)

    assert (figure.value, figure.met) == (3.1, False)
    assert first_segments(rows[2:]) == []


def test_streams_at_once_must_be_faster_than_the_fastest_one_after_another() -> None:
    speeds = {OURS: 13.9, "sequential": 8.0, "batched-4": 10.0}

    assert at_once(speeds)[-1].target == 14.0
    assert not at_once(speeds)[-1].met
    assert at_once(speeds | {OURS: 14.0})[-1].met
    assert all(figure.target is None for figure in at_once({"sequential": 8.0}))


def test_a_long_stream_is_judged_by_memory_and_by_its_end() -> None:
    short, long = hearing(1.0, peak=100), hearing(1.0, peak=105)

    def missed(seconds: float) -> int:
        return sum(not figure.met for figure in long_against_short(short, long, seconds))

    assert missed(10.049) == missed(9.951) == 0
    assert missed(10.051) == missed(9.949) == 1
    long.peak_bytes = 106
    assert missed(10.0) == 1


def test_the_sum_counts_each_contestant_over_all_recordings() -> None:
    rows = [
        row_of(OURS, 1.0, first=0.5),
        row_of("x", 2.0),
        row_of(OURS, 3.0, first=0.9),
        row_of("x", 4.0),
    ]

    own, other = sum_up(rows, "all")

    assert (own.way, own.wall_seconds, own.media_seconds, own.first_seconds) == (OURS, 4, 20, 0.9)
    assert (other.way, other.wall_seconds, other.errors) == ("x", 6.0, Errors(4))


def test_the_table_has_a_line_for_each_row() -> None:
    silent = Row.of(recording(), "x", [Heard(2.0)])
    lines = [line.split() for line in table([row_of(OURS, 4.0), silent]).splitlines()]

    assert [line[0] for line in lines] == ["recording", "a", "a"]
    assert lines[1][1:8] == [OURS, "10.0", "4.00", "2.5", "0.400", "1.00", "0.00"]
    assert lines[2][6:8] == ["-", "100.00"]


def test_ours_are_judged_as_we_write_them_and_the_others_as_they_come() -> None:
    long = "a sentence that is a good deal longer than any line of a caption may ever be"
    heard = Heard(1.0, [Piece(0.0, 6.0, long, 1.0)], ended_at=10.0)

    own = judge_captions(heard, "en", ours=True)
    other = judge_captions(heard, "en", ours=False)

    assert own.within_hard_rules == own.cues > 0
    assert (other.cues, other.within_hard_rules) == (1, 0)
