"""Spares a stage that does not answer: after some failures in a row only one call at a time tries.

What a stage says about a job is an answer, whatever it says: only silence counts.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from structlog import get_logger

from mesh.errors import MeshError
from mesh.reasons import Reason

log = get_logger(__name__)

COUNTED = frozenset({Reason.STAGE_UNAVAILABLE, Reason.DEADLINE})
LONGEST_PAUSE_SECONDS = 30.0


class Passage:
    """One call that was let through."""

    def __init__(self, circuit: "Circuit", *, trial: bool) -> None:
        self._circuit = circuit
        self._trial = trial

    def answered(self) -> None:
        """The stage lives."""
        self._trial = False
        self._circuit.close()

    def failed(self, error: MeshError) -> None:
        """The call ended with an error."""
        if error.reason in COUNTED:
            self._circuit.count(trial=self._trial)
        else:
            self.answered()

    def end(self) -> None:
        """The call is over; a trial that learnt nothing makes room for the next."""
        if self._trial:
            self._circuit.end_trial()


class Circuit:
    """Closed: everybody passes. Open: nobody does for a while, then one at a time."""

    def __init__(self, stage: str, *, failures: int, seconds: float) -> None:
        self._stage = stage
        self._limit = failures
        self._shortest = self._pause = seconds
        self._failures = 0
        self._open_until: float | None = None
        self._trying = False
        self._changed = asyncio.Event()

    @property
    def open(self) -> bool:
        """Whether calls are being held back."""
        return self._open_until is not None

    @asynccontextmanager
    async def passage(self) -> AsyncIterator[Passage]:
        """Waits for its turn, which is at once while the circuit is closed."""
        passage = await self._admitted()
        try:
            yield passage
        finally:
            passage.end()

    async def _admitted(self) -> Passage:
        clock = asyncio.get_running_loop().time
        while self._open_until is not None:
            if not self._trying and clock() >= self._open_until:
                self._trying = True
                return Passage(self, trial=True)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(None if self._trying else self._open_until):
                    await self._changed.wait()
        return Passage(self, trial=False)

    def close(self) -> None:
        """All may pass."""
        self._failures = 0
        if self._open_until is not None:
            log.info("a stage answers again", stage=self._stage)
            self._open_until, self._trying, self._pause = None, False, self._shortest
            self._tell()

    def count(self, *, trial: bool) -> None:
        """One more failure in a row; while open only that of a trial says anything new."""
        self._failures += 1
        if trial:
            self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
        elif self.open or self._failures < self._limit:
            return
        log.warning("a stage is spared", stage=self._stage, seconds=self._pause)
        self._open_until = asyncio.get_running_loop().time() + self._pause
        self._tell()

    def end_trial(self) -> None:
        """The next may try."""
        self._trying = False
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
