"""Ending background tasks for certain."""

import asyncio
from typing import Any

AGAIN_SECONDS = 0.5


async def stop(*tasks: "asyncio.Task[Any]") -> None:
    """Cancels until they have ended.

    Once is not enough: asyncio.wait_for of Python 3.11, which nats-py leans on, swallows a
    cancellation that arrives together with its result.
    """
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=AGAIN_SECONDS)
