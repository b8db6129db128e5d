"""Circuit breaker of a stage, collector or executor: after failures one call at a time is tried.

Only silence counts as a failure: whatever a stage says about a job is an answer.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from structlog import get_logger

from mesh.errors import MeshError
from mesh.reasons import Reason
from orchestrator.worker.retry import Backoff

log = get_logger(__name__)

COUNTED = frozenset(
    {
        Reason.STAGE_UNAVAILABLE,
        Reason.COLLECTOR_UNAVAILABLE,
        Reason.EXECUTOR_UNAVAILABLE,
        Reason.DEADLINE,
    }
)
LONGEST_OPEN_SECONDS = 30.0


class CallPermit:
    """One call that the circuit let through."""

    def __init__(self, circuit: "Circuit", *, trial: bool) -> None:
        self._circuit = circuit
        self._trial = trial

    def answered(self) -> None:
        """The stage answered."""
        self._trial = False
        self._circuit.close()

    def failed(self, error: MeshError) -> None:
        """The call ended with an error."""
        if error.reason in COUNTED:
            self._circuit.count(trial=self._trial)
        else:
            self.answered()

    def end(self) -> None:
        """The call is over; after a trial without an answer the next call may try."""
        if self._trial:
            self._circuit.end_trial()


class Circuit:
    """Closed: every call passes. Open: no call passes for a while, then one at a time."""

    def __init__(self, stage: str, *, failures: int, seconds: float) -> None:
        self._stage = stage
        self._limit = failures
        self._backoff = Backoff(seconds, max(seconds, LONGEST_OPEN_SECONDS))
        self._failures = self._failed_trials = 0
        self._open_until: float | None = None
        self._trying = False
        self._changed = asyncio.Event()

    @property
    def open(self) -> bool:
        """Whether calls are being held back."""
        return self._open_until is not None

    @asynccontextmanager
    async def permit(self) -> AsyncIterator[CallPermit]:
        """Waits until a call may pass: not at all while the circuit is closed."""
        permit = await self._admitted()
        try:
            yield permit
        finally:
            permit.end()

    async def _admitted(self) -> CallPermit:
        clock = asyncio.get_running_loop().time
        while self._open_until is not None:
            if not self._trying and clock() >= self._open_until:
                self._trying = True
                return CallPermit(self, trial=True)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(None if self._trying else self._open_until):
                    await self._changed.wait()
        return CallPermit(self, trial=False)

    def close(self) -> None:
        """Lets every call pass."""
        self._failures = self._failed_trials = 0
        if self._open_until is not None:
            log.info("circuit closed: the stage answers again", stage=self._stage)
            self._open_until, self._trying = None, False
            self._wake_waiting()

    def count(self, *, trial: bool) -> None:
        """Counts one more failure in a row; while open, only a failed trial keeps it open."""
        self._failures += 1
        if trial:
            self._failed_trials += 1
        elif self.open or self._failures < self._limit:
            return
        seconds = self._backoff.delay(1 + self._failed_trials)
        log.warning("circuit open: the stage does not answer", stage=self._stage, seconds=seconds)
        self._open_until = asyncio.get_running_loop().time() + seconds
        self._wake_waiting()

    def end_trial(self) -> None:
        """Lets the next call try."""
        self._trying = False
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
