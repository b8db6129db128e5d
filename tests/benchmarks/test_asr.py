"""The speech benchmark as it is called, what it leaves, and others it compares with."""

import asyncio
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.asr import Arguments, Result, main, write_result
from benchmarks.asr_contestants import (
    COMMAND,
    CPP,
    CPP_PACKAGE,
    CPP_Q8,
    OURS,
    Terms,
    contestant,
)
from benchmarks.asr_heard import Heard, peak_noted
from benchmarks.asr_parts import Outcome
from benchmarks.asr_peers import PEERS
from benchmarks.asr_plot import plot_progress
from benchmarks.asr_recordings import decode_folder
from tests.benchmarks.samples import SAMPLE, hearing, recording
from tests.support.polling import until


async def test_the_memory_of_a_process_and_of_its_children_is_noted() -> None:
    hold = "kept = b'x' * 50_000_000; print('here', flush=True); input()"
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hold!r}])"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", nested), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    heard = Heard()

    async with peak_noted(heard, process.pid):
        await until(lambda: heard.peak_bytes > 0)
    await process.communicate(b"\n")

    assert heard.peak_bytes > 50_000_000


def test_the_result_is_written_with_every_run(tmp_path: Path) -> None:
    outcome = Outcome(recording(), {OURS: [hearing(2.0), hearing(3.0)]})
    args = Arguments(Path("folder"), "base", 5, "int8", 2, (OURS,), ("each",), 2, 10, 3, 1)

    path = write_result(args, Result("base", each=[outcome]), tmp_path)

    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["asked"]["model"] == "base"
    assert written["rows"][0]["wer_percent"] == 0
    assert [run["wall_seconds"] for run in written["heard"][0]["runs"][OURS]] == [2.0, 3.0]


def test_without_matplotlib_the_plot_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(Exception, match=r"install .*bench$"):
        plot_progress({OURS: hearing(1.0)}, 10.0, tmp_path / "x.png")


@pytest.mark.parametrize(
    "arguments", [["nowhere"], [".", "--way", "batched-0"], [".", "--way", "batched"], []]
)
def test_what_cannot_be_meant_is_refused_with_2(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, arguments).exit_code == 2


@pytest.mark.parametrize("way", [OURS, "sequential", "batched-4", *PEERS, COMMAND, CPP, CPP_Q8])
def test_a_folder_without_references_is_refused_with_2(tmp_path: Path, way: str) -> None:
    (tmp_path / "a.ogg").write_bytes(SAMPLE.read_bytes())

    result = CliRunner().invoke(main, [str(tmp_path), "--way", way])

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


HAS_COMMAND = Path(sys.executable).with_name(COMMAND).is_file()
NEEDS_COMMAND = pytest.mark.skipif(not HAS_COMMAND, reason="the extra bench is not installed")
HAS_CPP = find_spec(CPP_PACKAGE) is not None
NEEDS_CPP = pytest.mark.skipif(not HAS_CPP, reason="the extra bench is not installed")


@pytest.mark.parametrize(
    "way",
    [
        *PEERS,
        pytest.param(COMMAND, marks=NEEDS_COMMAND),
        pytest.param(CPP, marks=NEEDS_CPP),
        pytest.param(CPP_Q8, marks=NEEDS_CPP),
    ],
)
async def test_others_hear_a_recording_with_the_same_weights(tmp_path: Path, way: str) -> None:
    folder, work = tmp_path / "folder", tmp_path / "work"
    folder.mkdir()
    work.mkdir()
    for name in ("short.ogg", "short.txt"):
        (folder / name).write_bytes(SAMPLE.with_name(name).read_bytes())
    (recording,) = decode_folder(folder, work)

    async with contestant(way, Terms("tiny.en", 1, "int8", 1), work) as one:
        heard = await one.hear(recording)

    assert "lovely" in heard.text
    assert heard.language == "en"
    assert 0 < heard.pieces[0].at <= heard.wall_seconds
    assert heard.peak_bytes > 0


async def test_a_missing_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    with pytest.raises(Exception, match=r"install .*bench$"):
        async with contestant(COMMAND, Terms("tiny.en", 1, "int8", 1), tmp_path):
            pass


async def test_without_pywhispercpp_its_ways_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, CPP_PACKAGE, None)

    for way in (CPP, CPP_Q8):
        with pytest.raises(Exception, match=r"install .*bench$"):
            async with contestant(way, Terms("tiny.en", 1, "int8", 1), tmp_path):
                pass


async def test_a_beam_wider_than_whisper_cpp_takes_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("benchmarks.asr_contestants.find_spec", lambda _: object())

    with pytest.raises(Exception, match="beam of 8 at most"):
        async with contestant(CPP, Terms("tiny.en", 9, "int8", 1), tmp_path):
            pass
