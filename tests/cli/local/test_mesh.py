"""Commands with an embedded mesh: real nats-server, dummy services."""

import os
import signal
import tempfile
from pathlib import Path
from time import time

import pytest

from cli.local.directories import RUN_PREFIX, run_directory
from tests.support.command import alive, finish, names_in, next_line, run, run_dirs, start
from tests.support.polling import until

URL = "https://example.net/v"


async def test_a_mesh_is_started_for_a_job_and_leaves_nothing_behind(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    out = tmp_path / "out"

    ended = await run("transcribe", URL, "-o", str(out), **mesh)

    assert ended.code == 0, ended.err
    assert len(ended.out.splitlines()) == 2
    assert len(names_in(out)) == 4
    assert alive(mesh) == []
    assert run_dirs(mesh) == []


async def test_services_are_configured_by_the_environment(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    await run("transcribe", URL, **mesh, DUMMY_NOTES=str(tmp_path))

    orchestrator = _settings(tmp_path / "orchestrator")
    assert orchestrator["ORCHESTRATOR_NATS_URL"].startswith("nats://127.0.0.1:")
    assert orchestrator["ORCHESTRATOR_METRICS_LISTEN"] == ""
    assert orchestrator["ORCHESTRATOR_WORK_DIR"].startswith(mesh["TMPDIR"])
    stages = {
        orchestrator[f"ORCHESTRATOR_{name}"] for name in ("DOWNLOADER", "NORMALIZER", "TRANSCRIBER")
    }
    assert len({*stages, orchestrator["ORCHESTRATOR_LISTEN"]}) == 4
    downloader = _settings(tmp_path / "downloader")
    assert downloader["DOWNLOADER_LISTEN"] == orchestrator["ORCHESTRATOR_DOWNLOADER"]
    assert downloader["DOWNLOADER_ALLOW_PRIVATE_ADDRESSES"] == "true"


def _settings(note: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in note.read_text().splitlines())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_an_interrupted_command_leaves_no_process_and_no_directory(
    mesh: dict[str, str], number: signal.Signals, code: int
) -> None:
    process = await start("transcribe", URL, **mesh, DUMMY_ENDLESS="1", DUMMY_DOWNLOADER="messy")
    await next_line(process)
    assert any("nats-server" in line for line in alive(mesh))
    assert any("sleep 600" in line for line in alive(mesh))
    process.send_signal(number)

    ended = await finish(process)

    assert ended.code == code
    assert alive(mesh) == []
    assert run_dirs(mesh) == []


async def test_sigint_is_handled_even_where_the_shell_had_it_ignored(mesh: dict[str, str]) -> None:
    """As for a background job of a script."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = await start("transcribe", URL, **mesh, DUMMY_ENDLESS="1")
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    await next_line(process)
    process.send_signal(signal.SIGINT)

    assert (await finish(process)).code == 130


async def test_an_interrupted_start_leaves_nothing_behind(mesh: dict[str, str]) -> None:
    process = await start("transcribe", URL, **mesh, DUMMY_TRANSCRIBER="slow")
    await until(lambda: any("-m transcriber" in line for line in alive(mesh)))
    process.send_signal(signal.SIGINT)

    ended = await finish(process)

    assert ended.code == 130
    assert alive(mesh) == []
    assert run_dirs(mesh) == []


async def test_a_killed_command_leaves_no_process_and_the_next_removes_its_directory(
    mesh: dict[str, str],
) -> None:
    process = await start("transcribe", URL, **mesh, DUMMY_ENDLESS="1", DUMMY_DOWNLOADER="messy")
    await next_line(process)
    process.send_signal(signal.SIGKILL)
    await process.communicate()

    await until(lambda: alive(mesh) == [])
    (left,) = run_dirs(mesh)
    os.utime(Path(mesh["TMPDIR"]) / left, (time() - 3600, time() - 3600))
    ended = await run("transcribe", URL, **mesh)

    assert ended.code == 0, ended.err
    assert run_dirs(mesh) == []


async def test_the_log_of_a_service_that_cannot_start_is_quoted(mesh: dict[str, str]) -> None:
    ended = await run("transcribe", URL, **mesh, DUMMY_NORMALIZER="broken")

    assert ended.code == 4
    assert "normalizer ended with code 3" in ended.err
    assert "no module named warp_drive" in ended.err
    assert "Traceback" not in ended.err
    assert alive(mesh) == []
    assert run_dirs(mesh) == []


async def test_a_module_named_like_a_service_in_the_working_directory_is_not_run(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "downloader.py").write_text("raise SystemExit('the wrong one')")

    ended = await run("transcribe", URL, cwd=str(trap), **mesh)

    assert ended.code == 0, ended.err


def test_a_run_directory_in_use_is_not_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with run_directory() as first:
        os.utime(first, (0, 0))
        with run_directory() as second:
            assert names_in(tmp_path) == sorted([first.name, second.name])
    assert names_in(tmp_path) == []
    assert first.name.startswith(RUN_PREFIX)


async def test_a_mesh_is_started_for_a_collection_and_leaves_nothing_behind(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    out = tmp_path / "out"

    ended = await run("collect", URL, "-o", str(out), "-f", "srt", **mesh)

    assert ended.code == 0, ended.err
    assert names_in(out) == ["001 Talk 1.srt", "002 Talk 2.srt"]
    assert alive(mesh) == []
    assert run_dirs(mesh) == []
