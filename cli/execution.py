"""Runs the coroutine of a command: signals cancel it and limit clean-up; errors are one line."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, NoReturn, ParamSpec

from cli.exits import CommandError, Exit, code_of_error
from cli.render.text import lines_for_terminal
from mesh.errors import MeshError

P = ParamSpec("P")

CODES = {
    signal.SIGINT: Exit.INTERRUPTED,
    signal.SIGTERM: Exit.TERMINATED,
    signal.SIGHUP: Exit.TERMINATED,
}
CLEANUP_SECONDS = 20.0
"""Time limit for everything that is still written after an interruption."""


def async_command(main: Callable[P, Coroutine[Any, Any, Exit]]) -> Callable[P, NoReturn]:
    """Makes a click callback of a coroutine function; the process exits with the code it returns.

    Heavy imports belong into its body: `--help` must not pay for them.
    """

    @wraps(main)
    def callback(*args: P.args, **kwargs: P.kwargs) -> NoReturn:
        run(main(*args, **kwargs))

    return callback


def run(main: Coroutine[Any, Any, Exit]) -> NoReturn:
    """Runs `main` and exits the process with its code, or with that of its error."""
    _replace_unencodable()
    try:
        code = asyncio.run(_run_until_signalled(main))
    except CommandError as error:
        code = _fail(str(error), error.reason, error.code)
    except MeshError as error:
        code = _fail(str(error), error.reason, code_of_error(error))
    except BrokenPipeError:
        # Otherwise the interpreter complains when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = Exit.BROKEN_PIPE
    sys.exit(code)


async def _run_until_signalled(main: Coroutine[Any, Any, Exit]) -> Exit:
    """The first signal cancels the task; later ones do not interrupt its clean-up."""
    task = asyncio.ensure_future(main)
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if not received:
            task.cancel()
        received.append(number)

    loop = asyncio.get_running_loop()
    for number in CODES:
        # nohup ignores SIGHUP, and that is respected. A script's background job ignores SIGINT
        # by default, but a SIGINT sent to it by name is meant.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            return CODES[received[0]]
        raise


async def clean_up(work: Coroutine[Any, Any, None], write: Callable[[str], None]) -> None:
    """Runs the work to its end, unless its time is up or another signal comes."""
    second_signal = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, second_signal.set)
    working = asyncio.create_task(work)
    hurry = asyncio.create_task(second_signal.wait())
    await asyncio.wait(
        {working, hurry}, timeout=CLEANUP_SECONDS, return_when=asyncio.FIRST_COMPLETED
    )
    if not working.done():
        write("left before everything was written")
    working.cancel()
    hurry.cancel()
    await asyncio.gather(working, hurry, return_exceptions=True)


def _fail(message: str, reason: str, code: Exit) -> Exit:
    first, *others = lines_for_terminal(message).splitlines() or [""]
    tail = "".join(f"\n  {line}" for line in others)
    sys.stderr.write(f"error: {first}{f' ({reason})' if reason else ''}{tail}\n")
    return code


def _replace_unencodable() -> None:
    """Lets characters that the terminal's encoding lacks become "?" instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
