"""Makes glibc keep freed memory for the next window."""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_KEEP = 2**31 - 1


def keep_freed_memory() -> None:
    """Large buffers are used again instead of going back to the system after each layer.

    Otherwise a third of the time of encoding a full window goes into faulting in pages that were
    there a moment ago. What is kept is what the longest window needs.
    """
    if sys.platform.startswith("linux"):
        adjust = getattr(ctypes.CDLL(None), "mallopt", None)
        if adjust is not None:  # other C libraries have no such thing
            adjust(_ARENA_MAX, 1)  # only the main one may grow beyond 64 MB
            adjust(_MMAP_THRESHOLD, _KEEP)
            adjust(_TRIM_THRESHOLD, _KEEP)
