"""Looking at processes, which may end while one looks."""

from collections.abc import Callable

import psutil

Newborn = Callable[[], list[psutil.Process]]


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
