"""The speech benchmark as it is called, and what it leaves; no model is needed for that."""

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
from benchmarks.asr_heard import Heard, peak_noted
from benchmarks.asr_parts import Outcome
from benchmarks.asr_plot import plot_progress
from tests.benchmarks.samples import SAMPLE, hearing, recording
from tests.polling import until


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
        await until(lambda: heard.peak_bytes > 0)
    await process.communicate(b"\n")

    assert heard.peak_bytes > 10_000_000


def test_the_result_is_written_with_every_run(tmp_path: Path) -> None:
    outcome = Outcome(recording(), {OURS: [hearing(2.0), hearing(3.0)]})
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
        plot_progress({OURS: hearing(1.0)}, 10.0, tmp_path / "x.png")


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
