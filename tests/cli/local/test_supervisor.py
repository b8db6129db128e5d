"""Real child processes: none outlives its supervisor, however that ends."""

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from cli import supervisor
from cli.processes import ChildSpec
from cli.supervisor import supervised
from mesh.errors import TimedOutError, UnavailableError
from tests.cli.children import PARENT, STUBBORN, Told
from tests.cli.command import MARK, commands, marked
from tests.polling import until


def spec(name: str, code: str, mark: str, flag: Path, **more: float) -> ChildSpec:
    async def is_ready() -> bool:
        return os.path.exists(flag)  # noqa: ASYNC240, PTH110 # a file of this very test

    command = (sys.executable, "-c", code, str(flag))
    return ChildSpec(name, command, is_ready, {MARK: mark}, **more)  # type: ignore[arg-type]


async def test_children_and_theirs_are_gone_after_the_block(tmp_path: Path, mark: str) -> None:
    phases = [
        [spec("one", PARENT, mark, tmp_path / "1")],
        [spec("two", STUBBORN, mark, tmp_path / "2")],
    ]

    async with supervised(phases, tmp_path, grace_seconds=0.3, narrator=Told()):
        # A leash, a child and a grandchild each.
        assert len(commands(mark)) == 6
    assert commands(mark) == []


async def test_the_later_phases_start_when_the_first_is_ready(tmp_path: Path, mark: str) -> None:
    looks = f"import pathlib; assert pathlib.Path({str(tmp_path / '1')!r}).exists()\n" + PARENT
    told = Told()
    phases = [
        [spec("one", PARENT, mark, tmp_path / "1")],
        [spec("two", looks, mark, tmp_path / "2")],
    ]

    async with supervised(phases, tmp_path, grace_seconds=0.3, narrator=told):
        pass

    assert told.statuses[0] == "starting one …, two …"
    assert "starting one ready, two ready" in told.statuses
    assert told.statuses[-1] == ""


async def test_what_keeps_a_child_is_part_of_the_line(tmp_path: Path, mark: str) -> None:
    told = Told()

    async def doing() -> str:
        (tmp_path / "go on").touch()
        return "fetching model base, 45 of 145 MB"

    waits = (
        "import os, time\n"
        f"while not os.path.exists({str(tmp_path / 'go on')!r}): time.sleep(0.01)\n"
    )
    one = replace(spec("one", waits + PARENT, mark, tmp_path / "1"), doing=doing)

    async with supervised([[one]], tmp_path, grace_seconds=0.3, narrator=told):
        pass

    assert "starting one (fetching model base, 45 of 145 MB) …" in told.statuses
    assert "starting one ready" in told.statuses


async def test_a_child_that_ends_early_is_quoted_and_the_others_are_stopped(
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
        async with supervised(phases, tmp_path, grace_seconds=0.3, narrator=Told()):
            pass

    assert commands(mark) == []


async def test_a_child_that_is_never_ready_is_given_up(tmp_path: Path, mark: str) -> None:
    silent = spec("one", "import time; time.sleep(600)", mark, tmp_path / "1", start_seconds=0.3)

    with pytest.raises(TimedOutError, match="one was not ready"):
        async with supervised([[silent]], tmp_path, grace_seconds=0.3, narrator=Told()):
            pass

    assert commands(mark) == []


async def test_a_command_that_does_not_exist_is_said(tmp_path: Path, mark: str) -> None:
    async def is_ready() -> bool:
        return False

    missing = ChildSpec("one", ("/nonexistent/tool",), is_ready, {MARK: mark})

    with pytest.raises(UnavailableError, match=r"cannot run /nonexistent/tool: No such file"):
        async with supervised([[missing]], tmp_path, grace_seconds=0.3, narrator=Told()):
            pass


async def test_a_child_that_dies_is_started_again_and_leaves_no_orphan(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE_SECONDS", 0.05)
    flag, told = tmp_path / "1", Told()

    async with supervised(
        [[spec("one", PARENT, mark, flag)]], tmp_path, grace_seconds=0.3, narrator=told
    ):
        before = {process.pid for process in marked(mark)}
        victim = next(p for p in marked(mark) if "time.sleep(600)" in p.cmdline()[2])
        flag.unlink()
        victim.kill()
        await until(lambda: "one is back" in told.lines)
        assert len(commands(mark)) == 3
        assert not before & {process.pid for process in marked(mark)}

    assert told.lines[0].startswith("one ended with code 137; starting it again in 0.05 s")
    assert commands(mark) == []


SUPERVISOR = """
import asyncio, pathlib, sys
from cli.processes import ChildSpec
from cli.supervisor import supervised
from tests.cli.children import PARENT, STUBBORN, Told

async def main():
    where = pathlib.Path(sys.argv[1])
    async def is_ready():
        return True
    specs = [
        ChildSpec(name, (sys.executable, "-c", code, str(where / name)), is_ready)
        for name, code in [("one", PARENT), ("two", STUBBORN)]
    ]
    async with supervised([specs], where, grace_seconds=0.5, narrator=Told()):
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere it is best effort")
async def test_nothing_outlives_a_supervisor_that_was_killed(tmp_path: Path, mark: str) -> None:
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
async def test_a_child_does_not_outlive_its_leash(tmp_path: Path, mark: str) -> None:
    flag = tmp_path / "1"
    quiet = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"

    async with supervised(
        [[spec("one", quiet, mark, flag)]], tmp_path, grace_seconds=0.3, narrator=Told()
    ):
        leash = next(p for p in marked(mark) if "--grace" in p.cmdline())
        (child,) = leash.children()
        leash.kill()
        gone, _ = psutil.wait_procs([child], timeout=10)
        assert gone == [child]
