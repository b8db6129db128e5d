"""The installed command on a real mesh."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psutil
import pytest

from tests.conftest import COMMAND, DATA, OVER_TLS, RealMesh
from tests.end_to_end.spoken import plain, run
from tests.support.site import Site, serving


@pytest.fixture
def called(request: pytest.FixtureRequest) -> RealMesh | None:
    """None: the command starts a mesh of its own. That has no TLS, so over TLS it calls ours."""
    return request.getfixturevalue("real_mesh") if OVER_TLS else None


def test_transcribe_writes_four_files_and_prints_the_captions(
    called: RealMesh | None, tmp_path: Path
) -> None:
    done = run("transcribe", str(DATA / "short.ogg"), "--force", "-o", str(tmp_path), mesh=called)

    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "short.json", "short.srt", "short.txt", "short.vtt",
    ]  # fmt: skip
    words = plain((DATA / "short.txt").read_text())
    assert plain((tmp_path / "short.txt").read_text()) == words
    assert plain(json.loads((tmp_path / "short.json").read_text())["text"]) == words
    assert words.split()[0] in plain(done.stdout)


def test_ctrl_c_on_transcribe_is_code_130_and_leaves_no_process(
    called: RealMesh | None, tmp_path: Path
) -> None:
    mark = f"YTCAPTION_TEST_{os.getpid()}_{tmp_path.name}"
    with serving(DATA) as site:  # never released: the job cannot end by itself
        command = [COMMAND, "transcribe", f"{site.url}/held/sample.ogg"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, **(called.variables() if called else {}), "MARK": mark},
            start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline()  # the first caption: everything is under way
        assert len(_marked(mark)) > (0 if called else 5)
        process.send_signal(signal.SIGINT)
        process.stdout.close()
        assert process.wait(120) == 130

    assert _marked(mark) == []


def _marked(mark: str) -> list[str]:
    """Processes that inherited the mark from the command."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("MARK") == mark and process.status() != "zombie":
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def test_a_watch_that_starts_midway_gets_every_event(real_mesh: RealMesh, site: Site) -> None:
    site.release.clear()
    job = run("submit", f"{site.url}/held/sample.ogg", "--force", mesh=real_mesh).stdout.strip()
    with _watching(job, real_mesh) as first:
        seen = [first.readline()]
        while "segment" not in seen[-1]:  # it is in the middle now: a third is still held back
            seen.append(first.readline())
        with _watching(job, real_mesh) as second:
            late = [second.readline()]
            site.release.set()
            seen += first.readlines()
            late += second.readlines()

    assert stored(late) == stored(seen)
    assert len(stored(seen)) > 10


@contextmanager
def _watching(job: str, mesh: RealMesh) -> Iterator[IO[str]]:
    """The stdout of the command; communicate() would miss what is already buffered here."""
    command, variables = [COMMAND, "watch", job, "--json"], {**os.environ, **mesh.variables()}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) as process:
        assert process.stdout is not None
        yield process.stdout


def stored(lines: list[str]) -> list[tuple[int, str]]:
    """The stored events among printed lines."""
    updates = [json.loads(line) for line in lines]
    return [
        (int(update["sequence"]), update["event"]["event_id"])
        for update in updates
        if int(update.get("sequence", 0))
    ]


def test_help_names_every_exit_code() -> None:
    shown = run("--help").stdout
    assert all(code in shown for code in ("0", "1", "2", "3", "4", "130", "143"))
