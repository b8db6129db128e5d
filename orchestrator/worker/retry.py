"""The retry policy: how long failed work waits before it is tried again.

A leaf: every room may import it, and it imports no other module of the orchestrator.
"""

import random
from dataclasses import dataclass
from typing import Self

from mesh.errors import MeshError
from mesh.retry_after import MAX_SECONDS

JITTER = 0.2
"""Every wait is longer by up to this share, so that work that failed together spreads out."""
MAX_WAITS = 50
MAX_DOUBLINGS = 60


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff without end: waits double from `first` up to `limit` seconds."""

    first: float
    limit: float

    def delay(self, failures: int, last: MeshError | None = None) -> float:
        """Seconds to wait after this many failures in a row, the last of them this one."""
        doublings = min(max(failures, 1) - 1, MAX_DOUBLINGS)
        return _delay(min(self.limit, self.first * 2.0**doublings), last)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Listed waits; the work is given up after the last of them."""

    waits: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads seconds separated by commas; ValueError if one of them is not usable."""
        waits = tuple(float(word) for word in text.split(",")) if text.strip() else ()
        if len(waits) > MAX_WAITS or not all(0 < wait <= MAX_SECONDS for wait in waits):
            raise ValueError(f"at most {MAX_WAITS} waits of more than 0 and at most a day each")
        return cls(waits)

    def delay(self, failures: int, last: MeshError | None = None) -> float | None:
        """Seconds to wait after this many failures, the last of them this one; None: give up."""
        if failures > len(self.waits):
            return None
        return _delay(self.waits[failures - 1], last)


def _delay(wait: float, last: MeshError | None) -> float:
    """The one place for rules that depend on what went wrong."""
    asked = last.retry_after_seconds if last else None
    # Jitter comes first: the other side is never asked again earlier than it allows.
    jittered = wait * random.uniform(1, 1 + JITTER)  # noqa: S311 # not for secrets
    return max(jittered, min(asked or 0, MAX_SECONDS))
