"""Runs the command as a user does: as a process."""

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
MARK = "YTCAPTION_TEST_MARK"


@dataclass(frozen=True, slots=True)
class Ended:
    """What is left of a command."""

    code: int
    out: str
    err: str


def environment(**added: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("YTCAPTION_")}
    path = os.pathsep.join(
        [*filter(None, [added.pop("path_first", "")]), str(ROOT), str(ROOT / "gen")]
    )
    return {**kept, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **added}


async def start(
    *arguments: str, cwd: str = "", answers: str = "", **added: str
) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "cli", *arguments),
        stdin=asyncio.subprocess.PIPE if answers else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(**added),
        cwd=cwd or None,
        start_new_session=True,
    )
    if process.stdin is not None:
        process.stdin.write(answers.encode())
        process.stdin.close()
    return process


async def next_line(process: asyncio.subprocess.Process) -> str:
    """What it prints next; fails if that takes too long."""
    assert process.stdout is not None
    async with asyncio.timeout(60):
        return (await process.stdout.readline()).decode()


async def finish(process: asyncio.subprocess.Process, seconds: float = 60) -> Ended:
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        raise
    return Ended(process.returncode or 0, out.decode(), err.decode())


async def run(*arguments: str, cwd: str = "", **added: str) -> Ended:
    return await finish(await start(*arguments, cwd=cwd, **added))


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def marked(mark: str) -> Iterator[psutil.Process]:
    """Every living process that was started, at whatever remove, with this mark."""
    for process in psutil.process_iter():
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and process.environ().get(MARK) == mark:
                yield process
        except psutil.Error:
            continue


def commands(mark: str) -> list[str]:
    """How those processes were started; one may end while we look."""
    found = []
    for process in marked(mark):
        with suppress(psutil.Error):
            found.append(" ".join(process.cmdline())[:100])
    return found


def alive(mesh: dict[str, str]) -> list[str]:
    """Every process of the mesh that was started with this environment."""
    return commands(mesh[MARK])


def run_dirs(mesh: dict[str, str]) -> list[str]:
    return names_in(Path(mesh["TMPDIR"]))
