"""Runs child processes, alone or as a pipeline; none outlives the block that started it."""

import asyncio
import os
import resource
import signal
from asyncio import SubprocessTransport
from asyncio.subprocess import DEVNULL, PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from mesh.errors import UnsupportedError
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason

_CPU_GRACE_SECONDS = 5


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Resource limits of one process; it may not write any file."""

    memory: int
    """Bytes of address space."""
    cpu_seconds: int


@dataclass(frozen=True, slots=True)
class Program:
    """A command and its whole environment; nothing is inherited."""

    command: Callable[[int | None], list[str]]
    """Takes the descriptor of the second output, if there is one."""
    environment: dict[str, str]


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A process in its own session, and our ends of its pipes."""

    process: Process
    stdin: asyncio.StreamWriter | None
    stdout: asyncio.StreamReader | None
    stderr: asyncio.StreamReader
    kept: asyncio.StreamReader | None
    """The second output, on the descriptor given to the command."""


@asynccontextmanager
async def running_process(
    program: Program,
    process_limits: ProcessLimits,
    *,
    stdin: int = DEVNULL,
    stdout: int = PIPE,
    keep: bool = False,
) -> AsyncIterator[ChildProcess]:
    """Runs the program until the block ends, then kills it; stdin and stdout may be descriptors."""
    async with _second_output(keep) as (kept, child_end):
        descriptor = None if child_end is None else child_end.fileno()
        process, transport = await _spawn(program, stdin, stdout, descriptor)
        try:
            if child_end is not None:
                child_end.close()  # an open copy here would hide that the child closed its own
            _limit(process.pid, process_limits)
            _schedule_as_batch(process.pid)
            assert process.stderr is not None  # noqa: S101 # requested in _spawn
            yield ChildProcess(process, process.stdin, process.stdout, process.stderr, kept)
        finally:
            await _kill(process, transport)


async def read_outputs(program: Program, process_limits: ProcessLimits) -> tuple[bytes, bytes, int]:
    """Runs the program to its end; returns its stdout, its stderr and its exit code."""
    async with running_process(program, process_limits) as child:
        assert child.stdout is not None  # noqa: S101 # a pipe by default
        output, errors = await asyncio.gather(child.stdout.read(), child.stderr.read())
        return output, errors, await child.process.wait()


@asynccontextmanager
async def running_pipeline(
    programs: list[Program], process_limits: ProcessLimits, *, feed: bool, keep: bool
) -> AsyncIterator[list[ChildProcess]]:
    """Runs the programs until the block ends, each reading what the one before it writes.

    Only the last may have a second output.
    """
    *others, last = programs
    upstream: FileIO | None = None
    stdin = PIPE if feed else DEVNULL
    children = []
    async with AsyncExitStack() as stack:
        for program in others:
            read, write = os.pipe()
            reading = stack.enter_context(FileIO(read, "r"))
            with FileIO(write, "w"):  # closed here, or the next process would never see EOF
                child = running_process(program, process_limits, stdin=stdin, stdout=write)
                children.append(await stack.enter_async_context(child))
            if upstream is not None:
                upstream.close()
            upstream, stdin = reading, read
        child = running_process(last, process_limits, stdin=stdin, keep=keep)
        children.append(await stack.enter_async_context(child))
        if upstream is not None:
            upstream.close()
        yield children


async def _spawn(
    program: Program, stdin: int, stdout: int, descriptor: int | None
) -> tuple[Process, SubprocessTransport]:
    command = program.command(descriptor)
    loop = asyncio.get_running_loop()
    # Like asyncio.create_subprocess_exec, which does not expose the transport.
    spawning = asyncio.ensure_future(
        loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(limit=MAX_FRAME_BYTES, loop=loop),
            *command,
            stdin=stdin,
            stdout=stdout,
            stderr=PIPE,
            pass_fds=() if descriptor is None else (descriptor,),
            env=program.environment,
            start_new_session=True,
        )
    )
    try:
        # Cancelled halfway, asyncio would kill the child but not the child's own children.
        transport, protocol = await asyncio.shield(spawning)
        return Process(transport, protocol, loop), transport
    except asyncio.CancelledError:
        transport, protocol = await spawning
        await _kill(Process(transport, protocol, loop), transport)
        raise
    except OSError as error:
        raise UnsupportedError(
            f"{Path(command[0]).name} cannot be run: {error.strerror}", reason=Reason.TOOL_MISSING
        ) from error


@asynccontextmanager
async def _second_output(
    wanted: bool,
) -> AsyncIterator[tuple[asyncio.StreamReader | None, FileIO | None]]:
    """A pipe: our reader, and the child's end."""
    if not wanted:
        yield None, None
        return
    read_end, write_end = os.pipe()
    reader = asyncio.StreamReader(limit=MAX_FRAME_BYTES)
    with FileIO(read_end, "r") as our_end, FileIO(write_end, "w") as child_end:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), our_end
        )
        try:
            yield reader, child_end
        finally:
            transport.close()


def _limit(pid: int, limits: ProcessLimits) -> None:
    """Applies the limits: a hostile file may make a decoder ask for more than the machine has."""
    values_by_kind = {
        resource.RLIMIT_AS: (limits.memory, limits.memory),
        resource.RLIMIT_CPU: (limits.cpu_seconds, limits.cpu_seconds + _CPU_GRACE_SECONDS),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_CORE: (0, 0),
    }
    with suppress(AttributeError, ProcessLookupError):  # prlimit is Linux-only; or it has exited
        for kind, values in values_by_kind.items():
            resource.prlimit(pid, kind, values)


def _schedule_as_batch(pid: int) -> None:
    """Marks the process as batch work: a thread it wakes does not preempt the one that runs.

    Threads inherit it, and ffmpeg starts its threads only after it has read some input. They hand
    each other tens of thousands of frames, and fewer switches between them cost less.
    """
    with suppress(AttributeError, OSError):  # Linux-only; not allowed; or it has exited
        os.sched_setscheduler(pid, os.SCHED_BATCH, os.sched_param(0))


async def _kill(process: Process, transport: SubprocessTransport) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    try:
        if process.stdin is not None and not process.stdin.is_closing():
            process.stdin.transport.abort()  # the reader of its buffered bytes is gone
        # asyncio waits for the pipes as well as for the process, so they are drained first.
        for stream in (process.stdout, process.stderr):
            while stream is not None and await stream.read(MAX_FRAME_BYTES):
                pass
        await process.wait()
    finally:
        transport.close()  # also if this task is cancelled once more
