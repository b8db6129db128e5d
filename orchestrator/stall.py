"""Notices when nothing moves any more, and says whose fault it is."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from mesh.errors import TimedOutError
from mesh.reasons import Reason
from orchestrator.stages import StageError, StageId
from ytcaption.v1 import job_pb2


class StallWatch:
    """An attempt moves as long as any stage answers."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._clock = asyncio.get_running_loop().time
        self._last = self._clock()
        self._awaited: set[StageId] = set()

    def note(self) -> None:
        """Something moved."""
        self._last = self._clock()

    @contextmanager
    def waiting_for(self, stage: StageId) -> Iterator[None]:
        """We wait for this stage to answer, rather than it for us."""
        self._awaited.add(stage)
        try:
            yield
        finally:
            self._awaited.discard(stage)
        self.note()

    async def raise_when_stalled(self) -> None:
        """Raises StageError once nothing moved for too long."""
        # An Event would need renewing with every frame; looking again when time is up is cheap.
        while (left := self._last + self._seconds - self._clock()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)
        # Later stages wait for earlier ones, so the earliest one we wait for is to blame.
        culprit = min(self._awaited, default=job_pb2.STAGE_UNSPECIFIED)
        raise StageError(
            culprit,
            TimedOutError(f"nothing moved for {self._seconds:g} s", reason=Reason.STALLED),
        )
