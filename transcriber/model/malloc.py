"""Tunes glibc's malloc; does nothing with another C library."""

import ctypes
import sys
from collections.abc import Mapping

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_KEEP = 2**31 - 1
_LARGE = 256 * 1024


def keep_freed_memory() -> None:
    """Makes glibc reuse large buffers instead of returning them to the system after each layer.

    Otherwise a third of the time of encoding a full window goes into page faults for memory that
    was mapped a moment ago.
    """
    _adjust({_MMAP_THRESHOLD: _KEEP, _TRIM_THRESHOLD: _KEEP})


def return_freed_memory() -> None:
    """Makes glibc return large buffers at once, and share the rest among threads.

    For a process that only passes audio on: each of its many threads would keep what it freed.
    """
    _adjust({_ARENA_MAX: 1, _MMAP_THRESHOLD: _LARGE, _TRIM_THRESHOLD: _LARGE})


def trim() -> None:
    """Returns all freed memory to the system."""
    release = _function("malloc_trim")
    if release is not None:
        release(0)


def _adjust(options: Mapping[int, int]) -> None:
    adjust = _function("mallopt")
    if adjust is not None:
        for option, value in options.items():
            adjust(option, value)


def _function(name: str) -> "ctypes._NamedFuncPointer | None":
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
