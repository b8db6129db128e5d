"""The parts of the memory benchmark that need no mesh."""

import subprocess
import sys
import urllib.request
from pathlib import Path

import psutil
import pytest
from imageio_ffmpeg import get_ffmpeg_exe

from benchmarks.figures import ALLOWED_GROWTH, MB, Marks, Run, Sample, step_for, table, to_json
from benchmarks.memory import heard
from benchmarks.processes import Memory, measure, seconds_of, service_of
from benchmarks.recording import make_recording, served
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import pipeline_service_pb2 as pb


def _run(*sizes: int, pids: tuple[int, ...] = ()) -> Run:
    run = Run(recording_seconds=10_800, recording_bytes=1)
    for number, size in enumerate(sizes):
        pid = pids[number] if pids else 7
        memory = {"orchestrator": Memory(pid, size, size)}
        run.samples.append(Sample(600.0 * (number + 1), 1.0, memory))
    return run


def test_a_mark_is_passed_once() -> None:
    marks = Marks(600)

    assert [marks.passed_by(at) for at in (0, 599, 600, 601, 1199, 1900, 1950)] == [
        *(False, False, True, False, False, True, False)
    ]


@pytest.mark.parametrize(("seconds", "step"), [(10_800, 600), (3600, 600), (180, 30)])
def test_short_recordings_have_shorter_steps(seconds: float, step: float) -> None:
    assert step_for(seconds) == step


def test_the_allowed_growth_passes_and_a_byte_more_does_not() -> None:
    assert _run(70 * MB, 70 * MB + ALLOWED_GROWTH).fault() == ""
    assert "+30.0 MB" in _run(70 * MB, 70 * MB + ALLOWED_GROWTH + 1).fault()


def test_only_the_first_mark_and_the_end_are_compared() -> None:
    assert _run(70 * MB, 170 * MB, 71 * MB).fault() == ""


def test_a_restarted_orchestrator_proves_nothing() -> None:
    assert "restarted" in _run(70 * MB, 70 * MB, pids=(1, 2)).fault()


def test_one_sample_proves_nothing() -> None:
    assert _run(70 * MB).fault()


def test_the_table_has_a_row_for_each_sample_the_change_and_the_peak() -> None:
    run = _run(70 * MB, 72 * MB)
    run.note_peaks({"orchestrator": Memory(7, 1, 80 * MB)})
    run.note_peaks({"orchestrator": Memory(7, 1, 75 * MB)})

    lines = [line.split() for line in table(run).splitlines()]

    assert [line[0] for line in lines] == ["media", "0:10:00", "0:20:00", "change", "peak*"]
    assert lines[3][1] == "+2.0"
    assert lines[4][1] == "80.0"


def test_the_result_keeps_every_sample() -> None:
    result = to_json(_run(70 * MB, 72 * MB))

    assert result["growth_bytes"] == 2 * MB
    assert result["fault"] == ""
    assert len(result["samples"]) == 2  # type: ignore[arg-type] # a list


def test_only_the_transcription_counts_as_heard() -> None:
    update = pb.WatchJobResponse()
    for stage, seconds in ((job_pb.STAGE_NORMALIZATION, 90), (job_pb.STAGE_TRANSCRIPTION, 30)):
        update.progress.stages.add(stage=stage).progress.media.done.FromSeconds(seconds)

    assert heard(update) == 30
    assert heard(pb.WatchJobResponse()) == 0


def test_a_reaper_is_not_taken_for_the_service_it_runs() -> None:
    service = [sys.executable, "-P", "-m", "orchestrator"]

    assert service_of(service) == "orchestrator"
    assert service_of([sys.executable, "-I", "-S", "reaper.py", "--", *service]) is None
    assert service_of(["/somewhere/nats-server", "--config", "x"]) == "nats"
    assert service_of([]) is None


def test_the_memory_of_a_running_service_is_found(tmp_path: Path) -> None:
    (tmp_path / "orchestrator.py").write_text(
        "import sys\nkept = b'x' * 20_000_000\nprint('here', flush=True)\nsys.stdin.read()\n"
    )
    service = [sys.executable, "-P", "-m", "orchestrator"]
    mesh = [sys.executable, "-c", f"import subprocess; subprocess.run({service!r})"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        mesh, env={"PYTHONPATH": str(tmp_path)}, stdin=pipe, stdout=pipe
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()

        root = psutil.Process(process.pid)
        children = [child.pid for child in root.children()]
        found = measure(root)["orchestrator"]
        process.communicate()

    assert [found.pid] == children
    assert 20_000_000 < found.with_children <= found.own


def test_the_time_of_children_that_have_ended_counts() -> None:
    work = "import time\nwhile time.process_time() < 1: pass"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}])"
    said = f"{parent}; print('done', flush=True); sys.stdin.read()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", said], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        process.stdout.readline()

        found = seconds_of(psutil.Process(process.pid))
        process.communicate()

    # The kernel tells both kinds of time rounded down to its ticks of 10 ms.
    assert found >= 0.9


def test_the_recording_has_the_length_asked_for_and_can_be_fetched(tmp_path: Path) -> None:
    speech, target = tmp_path / "speech.ogg", tmp_path / "long.ogg"
    tone = ["-f", "lavfi", "-i", "sine=frequency=300:duration=2", "-c:a", "libopus"]
    subprocess.run([get_ffmpeg_exe(), "-v", "error", *tone, str(speech)], check=True)

    make_recording(speech, target, seconds=100, every=30)

    assert _seconds_of(target) == pytest.approx(100, abs=1)
    assert target.stat().st_size > 100 * 64_000 / 8 * 0.9
    assert not list(tmp_path.glob("*.block.ogg"))
    with served(tmp_path) as address, urllib.request.urlopen(f"{address}/long.ogg") as answer:  # noqa: S310 # loopback
        assert answer.headers["Content-Type"] == "audio/ogg"
        assert len(answer.read()) == target.stat().st_size


def _seconds_of(path: Path) -> float:
    samples = ["-ac", "1", "-ar", "8000", "-f", "s16le", "-"]
    command = [get_ffmpeg_exe(), "-v", "error", "-i", str(path), *samples]
    return len(subprocess.run(command, check=True, capture_output=True).stdout) / 16_000
