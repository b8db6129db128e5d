"""The parts of the speech benchmark that need no model."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.asr import Result, Wish, main, write_result
from benchmarks.asr_contestants import OURS
from benchmarks.asr_cues import judge_captions
from benchmarks.asr_figures import (
    Row,
    against_bare,
    at_once,
    fastest_bare,
    first_segments,
    long_against_short,
    sum_up,
    table,
)
from benchmarks.asr_heard import Heard, Piece, peak_noted
from benchmarks.asr_parts import Outcome
from benchmarks.asr_plot import plot_progress
from benchmarks.asr_recordings import (
    BYTES_A_SECOND,
    PAUSE_SECONDS,
    Recording,
    decode_folder,
    join,
    order_of,
)
from benchmarks.asr_words import Errors, count_errors

SAMPLE = Path(__file__).parent.parent / "data" / "sample.ogg"


def _heard(wall: float, text: str = "blue sky", first: float = 1.0, peak: int = 1) -> Heard:
    return Heard(wall, [Piece(0.0, 1.0, text, first)], ended_at=10.0, peak_bytes=peak)


def _recording(name: str = "a", reference: str = "blue sky") -> Recording:
    return Recording(name, Path(name), 10.0, reference, "en")


def _row(way: str, *walls: float, text: str = "blue sky", first: float = 1.0) -> Row:
    return Row.of(_recording(), way, [_heard(wall, text, first) for wall in walls])


def _samples(folder: Path, name: str, seconds: float, byte: bytes) -> Recording:
    path = folder / f"{name}.s16le"
    path.write_bytes(byte * round(seconds * BYTES_A_SECOND))
    return Recording.of(path, name, f"text of {name}", "en")


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
    assert count_errors("Não consegue, não!", "não consegue não", "pt") == Errors(0, 3)
    assert count_errors("não consegue", "nao consegue", "pt").wrong == 1


def test_a_long_recording_weighs_more_than_a_short_one() -> None:
    assert Errors.total([Errors(1, 1), Errors(0, 99)]).percent == 1.0


def test_joining_goes_on_until_there_is_enough_and_uses_each_as_often() -> None:
    order = order_of([10.0, 20.0, 30.0], 200.0, seed=3)

    def seconds(numbers: list[int]) -> float:
        return sum((10.0, 20.0, 30.0)[n] for n in numbers) + PAUSE_SECONDS * (len(numbers) - 1)

    assert seconds(order[:-1]) < 200.0 <= seconds(order)
    assert sorted(order[:3]) == sorted(order[3:6]) == [0, 1, 2]


def test_the_order_of_joining_depends_on_the_seed_alone() -> None:
    lengths = [1.0] * 9

    assert order_of(lengths, 60, seed=1) == order_of(lengths, 60, seed=1)
    assert order_of(lengths, 60, seed=1) != order_of(lengths, 60, seed=2)


def test_a_joined_recording_has_whole_parts_pauses_and_their_texts(tmp_path: Path) -> None:
    parts = [_samples(tmp_path, "a", 1.0, b"\1"), _samples(tmp_path, "b", 2.0, b"\2")]

    joined = join(parts, tmp_path / "joined.s16le", seconds=3.5, seed=1)

    data = joined.path.read_bytes()
    assert joined.seconds == pytest.approx(3.0 + PAUSE_SECONDS)
    assert data.count(b"\1") == BYTES_A_SECOND
    assert data.count(b"\2") == 2 * BYTES_A_SECOND
    assert data.count(b"\0") == round(PAUSE_SECONDS * BYTES_A_SECOND)
    assert joined.reference in ("text of a text of b", "text of b text of a")
    assert joined.language == "en"


def test_only_recordings_with_a_reference_are_taken(tmp_path: Path) -> None:
    folder, work = tmp_path / "folder", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    for name in ("with.ogg", "without.ogg"):
        (folder / name).write_bytes(SAMPLE.read_bytes())
    (folder / "with.txt").write_text(" what is said \n", encoding="utf-8")

    (found,) = decode_folder(folder, work)

    assert (found.name, found.reference) == ("with.ogg", "what is said")
    assert found.seconds > 1


def test_an_empty_reference_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ogg").write_bytes(SAMPLE.read_bytes())
    (tmp_path / "a.txt").write_text("\n", encoding="utf-8")

    with pytest.raises(ValueError, match=r"a\.txt is empty"):
        decode_folder(tmp_path, tmp_path)


def test_a_row_has_the_medians_of_its_runs_and_the_highest_peak() -> None:
    runs = [_heard(9.0, first=3.0, peak=5), _heard(2.0, first=1.0, peak=7), _heard(4.0, first=2.0)]

    row = Row.of(_recording(), OURS, runs)

    assert (row.wall_seconds, row.first_seconds, row.peak_bytes) == (4.0, 2.0, 7)
    assert row.walls == (9.0, 2.0, 4.0)
    assert row.speed == 2.5


def test_the_errors_of_every_run_count() -> None:
    row = Row.of(_recording(), OURS, [_heard(1.0, "blue sky"), _heard(1.0, "blue")])

    assert row.errors == Errors(1, 4)


def test_we_are_measured_by_the_fastest_and_by_the_most_exact_of_the_others() -> None:
    rows = [
        _row(OURS, 4.2, text="blue"),
        _row("sequential", 8.0, text="blue sky"),
        _row("batched-4", 4.0, text=""),
    ]

    fastest = fastest_bare(rows)
    slower, worse = against_bare(rows)

    assert fastest is not None
    assert fastest.way == "batched-4"
    assert slower.value == pytest.approx(105.0)
    assert slower.met
    assert (worse.value, worse.met) == (50.0, False)


def test_without_ours_or_without_the_others_nothing_is_compared() -> None:
    assert against_bare([_row(OURS, 1.0)]) == []
    assert against_bare([_row("sequential", 1.0)]) == []


def test_the_slowest_first_segment_of_ours_is_judged_and_nobody_elses() -> None:
    rows = [_row(OURS, 9.0, first=3.1), _row(OURS, 9.0, first=0.5), _row("x", 9.0, first=8.0)]

    (figure,) = first_segments(rows)

    assert (figure.value, figure.met) == (3.1, False)
    assert first_segments(rows[2:]) == []


def test_streams_at_once_must_be_as_fast_as_the_fastest_one_after_another() -> None:
    speeds = {OURS: 9.0, "sequential": 8.0, "batched-4": 10.0}

    assert at_once(speeds)[-1].target == 10.0
    assert not at_once(speeds)[-1].met
    assert at_once(speeds | {OURS: 10.0})[-1].met
    assert all(figure.target is None for figure in at_once({"sequential": 8.0}))


def test_a_long_stream_is_judged_by_memory_and_by_its_end() -> None:
    short, long = _heard(1.0, peak=100), _heard(1.0, peak=110)

    def missed(seconds: float) -> int:
        return sum(not figure.met for figure in long_against_short(short, long, seconds))

    assert missed(10.049) == missed(9.951) == 0
    assert missed(10.051) == missed(9.949) == 1
    long.peak_bytes = 111
    assert missed(10.0) == 1


def test_the_sum_counts_each_contestant_over_all_recordings() -> None:
    rows = [_row(OURS, 1.0, first=0.5), _row("x", 2.0), _row(OURS, 3.0, first=0.9), _row("x", 4.0)]

    own, other = sum_up(rows, "all")

    assert (own.way, own.wall_seconds, own.media_seconds, own.first_seconds) == (OURS, 4, 20, 0.9)
    assert (other.way, other.wall_seconds, other.errors) == ("x", 6.0, Errors(0, 4))


def test_the_table_has_a_line_for_each_row() -> None:
    silent = Row.of(_recording(), "x", [Heard(2.0)])
    lines = [line.split() for line in table([_row(OURS, 4.0), silent]).splitlines()]

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


async def test_the_memory_of_a_process_and_of_its_children_is_noted() -> None:
    hold = "kept = bytes(50_000_000); print('here', flush=True); input()"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hold!r}])"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", nested), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    heard = Heard()

    async with peak_noted(heard, process.pid):
        async with asyncio.timeout(10):
            while not heard.peak_bytes:  # noqa: ASYNC110 # the other task looks
                await asyncio.sleep(0.01)
    await process.communicate(b"\n")

    assert heard.peak_bytes > 10_000_000


def test_the_result_is_written_with_every_run(tmp_path: Path) -> None:
    outcome = Outcome(_recording(), {OURS: [_heard(2.0), _heard(3.0)]})
    wish = Wish(Path("folder"), "base", 5, "int8", 2, (OURS,), ("each",), 2, 10, 3, 1)

    path = write_result(wish, Result(each=[outcome]), tmp_path)

    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["asked"]["model"] == "base"
    assert written["rows"][0]["wer_percent"] == 0
    assert [run["wall_seconds"] for run in written["heard"][0]["runs"][OURS]] == [2.0, 3.0]


def test_without_matplotlib_the_plot_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(Exception, match=r"\[bench\]"):
        plot_progress({OURS: _heard(1.0)}, 10.0, tmp_path / "x.png")


@pytest.mark.parametrize(
    "arguments", [["nowhere"], [".", "--way", "batched-0"], [".", "--way", "batched"], []]
)
def test_what_cannot_be_meant_is_refused_with_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, arguments).exit_code == 2


def test_a_folder_without_references_is_refused_with_2(tmp_path: Path) -> None:
    (tmp_path / "a.ogg").write_bytes(SAMPLE.read_bytes())

    result = CliRunner().invoke(main, [str(tmp_path)])

    assert result.exit_code == 2
    assert "no recording" in result.output


def test_make_bench_without_audio_says_so_and_ends_with_2() -> None:
    root = Path(__file__).parent.parent.parent
    unset = {name: value for name, value in os.environ.items() if name != "AUDIO"}

    ended = subprocess.run(
        ["make", "bench"],  # noqa: S607 # whichever make there is
        cwd=root,
        env=unset,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 2
    assert "AUDIO is not set" in ended.stderr
