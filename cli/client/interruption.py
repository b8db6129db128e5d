"""Clean-up after an interruption: limited in time, and cut short by another signal."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

from cli.render.screen import Screen

CANCEL_SECONDS = 10.0
"""Deadline of each call that is made after an interruption, or after a job that ended badly."""
CLEANUP_SECONDS = 20.0
"""Time limit for everything that is still written after an interruption."""


async def clean_up(work: Coroutine[Any, Any, None], screen: Screen) -> None:
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
        screen.line("left before everything was written")
    working.cancel()
    hurry.cancel()
    await asyncio.gather(working, hurry, return_exceptions=True)
