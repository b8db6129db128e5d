"""Supervised processes are real: none outlives its supervisor, however that ends."""

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from cli.local import supervisor
from cli.local.supervisor import ProcessSpec, supervised
from mesh.errors import TimedOutError, UnavailableError
from tests.cli.local.children import PARENT, STUBBORN, RecordingDisplay
from tests.support.command import MARK, commands, marked
from tests.support.polling import until
from tests.support.processes import command_line


def spec(name: str, code: str, mark: str, flag: Path, **more: float) -> ProcessSpec:
    async def is_ready() -> bool:
        return os.path.exists(flag)  # noqa: ASYNC240, PTH110 # a file of this very test

    command = (sys.executable, "-c", code, str(flag))
    return ProcessSpec(name, command, is_ready, {MARK: mark}, **more)  # type: ignore[arg-type]


async def test_processes_and_their_children_are_gone_after_the_block(
    tmp_path: Path, mark: str
) -> None:
    phases = [
        [spec("one", PARENT, mark, tmp_path / "1")],
        [spec("two", STUBBORN, mark, tmp_path / "2")],
    ]

    async with supervised(phases, tmp_path, grace_seconds=0.3, display=RecordingDisplay()):
        # A reaper, a process and its child each.
        assert len(commands(mark)) == 6
    assert commands(mark) == []


async def test_the_later_phases_start_when_the_first_is_ready(tmp_path: Path, mark: str) -> None:
    looks = f"import pathlib; assert pathlib.Path({str(tmp_path / '1')!r}).exists()\n" + PARENT
    display = RecordingDisplay()
    phases = [
        [spec("one", PARENT, mark, tmp_path / "1")],
        [spec("two", looks, mark, tmp_path / "2")],
    ]

    async with supervised(phases, tmp_path, grace_seconds=0.3, display=display):
        pass

    assert display.statuses[0] == "starting one …, two …"
    assert "starting one ready, two ready" in display.statuses
    assert display.statuses[-1] == ""


async def test_the_activity_of_a_process_is_part_of_the_status(tmp_path: Path, mark: str) -> None:
    display = RecordingDisplay()

    async def activity() -> str:
        (tmp_path / "go on").touch()
        return "fetching model base, 45 of 145 MB"

    waits = (
        "import os, time\n"
        f"while not os.path.exists({str(tmp_path / 'go on')!r}): time.sleep(0.01)\n"
    )
    one = replace(spec("one", waits + PARENT, mark, tmp_path / "1"), activity=activity)

    async with supervised([[one]], tmp_path, grace_seconds=0.3, display=display):
        pass

    assert "starting one (fetching model base, 45 of 145 MB) …" in display.statuses
    assert "starting one ready" in display.statuses


async def test_a_process_that_exits_early_is_quoted_and_the_others_are_stopped(
    tmp_path: Path, mark: str
) -> None:
    broken = "import sys; print('all fine'); sys.exit('the disk is made of cheese')"
    phases = [
        [spec("one", PARENT, mark, tmp_path / "1")],
        [
            spec("two", broken, mark, tmp_path / "2"),
            spec("three", PARENT, mark, tmp_path / "3"),
        ],
    ]

    with pytest.raises(UnavailableError, match=r"two ended with code 1(.|\n)*made of cheese"):
        async with supervised(phases, tmp_path, grace_seconds=0.3, display=RecordingDisplay()):
            pass

    assert commands(mark) == []


async def test_a_process_that_is_never_ready_times_out(tmp_path: Path, mark: str) -> None:
    silent = spec("one", "import time; time.sleep(600)", mark, tmp_path / "1", start_seconds=0.3)

    with pytest.raises(TimedOutError, match="one was not ready"):
        async with supervised([[silent]], tmp_path, grace_seconds=0.3, display=RecordingDisplay()):
            pass

    assert commands(mark) == []


async def test_a_command_that_does_not_exist_is_named(tmp_path: Path, mark: str) -> None:
    async def is_ready() -> bool:
        return False

    missing = ProcessSpec("one", ("/nonexistent/tool",), is_ready, {MARK: mark})

    with pytest.raises(UnavailableError, match=r"cannot run /nonexistent/tool: No such file"):
        async with supervised([[missing]], tmp_path, grace_seconds=0.3, display=RecordingDisplay()):
            pass


async def test_a_killed_process_is_restarted_and_leaves_no_orphan(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_BACKOFF_SECONDS", 0.05)
    flag, display = tmp_path / "1", RecordingDisplay()

    async with supervised(
        [[spec("one", PARENT, mark, flag)]], tmp_path, grace_seconds=0.3, display=display
    ):
        before = {process.pid for process in marked(mark)}
        victim = next(p for p in marked(mark) if "time.sleep(600)" in "".join(command_line(p)[2:3]))
        flag.unlink()
        victim.kill()
        await until(lambda: "one is back" in display.lines)
        assert len(commands(mark)) == 3
        assert not before & {process.pid for process in marked(mark)}

    assert display.lines[0].startswith("one ended with code 137; starting it again in 0.05 s")
    assert commands(mark) == []


SUPERVISOR = """
import asyncio, pathlib, sys
from cli.local.supervisor import ProcessSpec
from cli.local.supervisor import supervised
from tests.cli.local.children import PARENT, STUBBORN, RecordingDisplay

async def main():
    where = pathlib.Path(sys.argv[1])
    async def is_ready():
        return True
    specs = [
        ProcessSpec(name, (sys.executable, "-c", code, str(where / name)), is_ready)
        for name, code in [("one", PARENT), ("two", STUBBORN)]
    ]
    async with supervised([specs], where, grace_seconds=0.5, display=RecordingDisplay()):
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere it is best effort")
async def test_no_process_outlives_a_killed_supervisor(tmp_path: Path, mark: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SUPERVISOR, str(tmp_path)),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), MARK: mark},
    )
    await until(lambda: (tmp_path / "one").exists() and (tmp_path / "two").exists())
    assert len(commands(mark)) == 7

    process.send_signal(signal.SIGKILL)
    await process.wait()

    await until(lambda: commands(mark) == [])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere it is best effort")
async def test_a_process_does_not_outlive_its_reaper(tmp_path: Path, mark: str) -> None:
    flag = tmp_path / "1"
    quiet = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"

    async with supervised(
        [[spec("one", quiet, mark, flag)]], tmp_path, grace_seconds=0.3, display=RecordingDisplay()
    ):
        reaper = next(p for p in marked(mark) if "--grace" in command_line(p))
        (child,) = reaper.children()
        reaper.kill()
        gone, _ = psutil.wait_procs([child], timeout=60)
        assert gone == [child]


async def test_a_log_that_grows_too_long_is_moved_aside_while_its_process_runs(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FILES_SECONDS", 0.05)
    monkeypatch.setattr(supervisor, "MAX_LOG_BYTES", 10_000)
    chatty = "print('x' * 99, flush=True)\n"
    code = (
        f"import pathlib, sys, time\npathlib.Path(sys.argv[1]).touch()\nwhile True:\n    {chatty}"
    )
    code += "    time.sleep(0.001)\n"
    log, old = tmp_path / "one.log", tmp_path / "one.log.1"

    phases = [[spec("one", code, mark, tmp_path / "1")]]
    async with supervised(phases, tmp_path, grace_seconds=0.3, display=RecordingDisplay()):
        pid = commands(mark)
        await until(lambda: old.exists() and old.stat().st_size > 10_000)
        moved = old.stat().st_mtime_ns
        await until(lambda: old.stat().st_mtime_ns > moved)  # again, and it still writes

        assert commands(mark) == pid, "the same process"
        assert log.exists()


# Says so once it listens to SIGHUP, and at each one.
READS_AGAIN = """
import pathlib, signal, sys, time
flag = pathlib.Path(sys.argv[1])
signal.signal(signal.SIGHUP, lambda *_: flag.with_suffix(".again").touch())
flag.write_text("ready")
while True:
    time.sleep(600)
"""


async def test_a_process_is_asked_to_read_its_files_again_when_they_have_changed(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FILES_SECONDS", 0.05)
    changed = [False]

    def renewed() -> bool:
        found, changed[0] = changed[0], False
        return found

    watched = replace(spec("one", READS_AGAIN, mark, tmp_path / "1"), renewed=renewed)
    async with supervised([[watched]], tmp_path, grace_seconds=0.3, display=RecordingDisplay()):
        before = commands(mark)
        changed[0] = True
        await until((tmp_path / "1.again").exists)

        assert commands(mark) == before, "it goes on"
    assert commands(mark) == []
