"""Exceptions of tasks that no caller retrieved, which asyncio reports to its loop."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Unretrieved = Callable[[], list[str]]


@contextmanager
def recording_unretrieved() -> Iterator[Unretrieved]:
    """Records what the running loop is told of; asking collects the garbage first."""
    loop, found = asyncio.get_running_loop(), list[str]()
    loop.set_exception_handler(lambda _, context: found.append(repr(context.get("exception"))))

    def collected() -> list[str]:
        gc.collect()
        return found

    try:
        yield collected
    finally:
        loop.set_exception_handler(None)
