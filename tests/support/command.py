"""Runs the command as a process, as a user does."""

import asyncio
import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
MARK = "YTCAPTION_TEST_MARK"
LIMIT_SECONDS = 120
"""For a command that must end; a busy machine takes its time to start a mesh."""


@dataclass(frozen=True, slots=True)
class Ended:
    """Exit code and output of a command."""

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
    """Starts the command in a new interpreter."""
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
    """The next line of its stdout."""
    assert process.stdout is not None
    async with asyncio.timeout(LIMIT_SECONDS):
        return (await process.stdout.readline()).decode()


async def finish(process: asyncio.subprocess.Process, seconds: float = LIMIT_SECONDS) -> Ended:
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        raise
    return Ended(process.returncode or 0, out.decode(), err.decode())


async def run(*arguments: str, cwd: str = "", **added: str) -> Ended:
    """Runs the command to its end, in a process that the fork server forks."""
    request = {
        "arguments": arguments,
        "environment": environment(**added),
        "cwd": cwd or str(Path.cwd()),
    }
    ours, theirs = zip(*(os.pipe() for _ in range(3)), strict=True)
    socket.send_fds(_fork_server(), [json.dumps(request).encode()], theirs)
    for descriptor in theirs:
        os.close(descriptor)
    out, err, reply = [await _reader(descriptor) for descriptor in ours]
    pid = int(await reply.readline())
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            printed, reported = await asyncio.gather(out.read(), err.read())
            return Ended(int(await reply.readline()), printed.decode(), reported.decode())
    except TimeoutError:
        os.killpg(pid, signal.SIGKILL)
        raise


@cache
def _fork_server() -> socket.socket:
    """Starts the fork server; it ends when its socket closes."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.support.command_server", str(theirs.fileno())],
            env=environment(GRPC_VERBOSITY="ERROR"),
            pass_fds=[theirs.fileno()],
        )

    def stop() -> None:
        ours.close()
        process.wait()

    atexit.register(stop)
    return ours


async def _reader(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    pipe = os.fdopen(descriptor, "rb")
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    return reader


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def marked(mark: str) -> Iterator[psutil.Process]:
    """Every living process that inherited this mark."""
    for process in psutil.process_iter():
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and process.environ().get(MARK) == mark:
                yield process
        except psutil.Error:
            continue


def commands(mark: str) -> list[str]:
    """The command lines of those processes."""
    found = []
    for process in marked(mark):
        with suppress(psutil.Error):
            found.append(" ".join(process.cmdline())[:100])
    return found


def alive(mesh: dict[str, str]) -> list[str]:
    """The command lines of the processes that were started with this environment."""
    return commands(mesh[MARK])


def run_dirs(mesh: dict[str, str]) -> list[str]:
    return names_in(Path(mesh["TMPDIR"]))
