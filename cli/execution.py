"""Runs a command's coroutine: signals cancel it, a known failure is one line and a code."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any, NoReturn

from cli.exits import CommandError, Exit, code_of_error
from cli.text import lines_for_terminal
from mesh.errors import MeshError

CODES = {
    signal.SIGINT: Exit.INTERRUPTED,
    signal.SIGTERM: Exit.TERMINATED,
    signal.SIGHUP: Exit.TERMINATED,
}


def run(main: Coroutine[Any, Any, Exit]) -> NoReturn:
    """Never returns: the process ends with the code it earned."""
    _survive_odd_encodings()
    try:
        code = asyncio.run(_stoppable(main))
    except CommandError as error:
        code = _fail(str(error), error.reason, error.code)
    except MeshError as error:
        code = _fail(str(error), error.reason, code_of_error(error))
    except BrokenPipeError:
        # Or the interpreter complains when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = Exit.READER_GONE
    sys.exit(code)


async def _stoppable(main: Coroutine[Any, Any, Exit]) -> Exit:
    """The first signal cancels; while we clean up, more of them change nothing."""
    task = asyncio.ensure_future(main)
    received: list[signal.Signals] = []

    def stop(number: signal.Signals) -> None:
        if not received:
            task.cancel()
        received.append(number)

    loop = asyncio.get_running_loop()
    for number in CODES:
        # nohup has SIGHUP ignored. A script's background job has SIGINT ignored, but who sends
        # it one by name means it.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            return CODES[received[0]]
        raise


def _fail(message: str, reason: str, code: Exit) -> Exit:
    first, *others = lines_for_terminal(message).splitlines() or [""]
    tail = "".join(f"\n  {line}" for line in others)
    sys.stderr.write(f"error: {first}{f' ({reason})' if reason else ''}{tail}\n")
    return code


def _survive_odd_encodings() -> None:
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
