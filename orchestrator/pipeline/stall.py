"""Stall detection: fails an attempt in which nothing moves, and names the stage to blame."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mesh.errors import TimedOutError
from mesh.reasons import Reason
from orchestrator.pipeline.stages import StageError, StageId, stage_position
from ytcaption.v1 import job_pb2


class StallWatch:
    """An attempt moves as long as any stage answers."""

    def __init__(self, seconds: float, by_stage: Mapping[StageId, float] | None = None) -> None:
        self._seconds = seconds
        self._by_stage = by_stage or {}
        self._shortest = min((seconds, *self._by_stage.values()))
        self._clock = asyncio.get_running_loop().time
        self._last = self._clock()
        self._awaited: set[StageId] = set()
        self._excused = False

    def note(self) -> None:
        """Something moved."""
        self._last = self._clock()

    @contextmanager
    def waiting_for(self, stage: StageId) -> Iterator[None]:
        """Inside this block the attempt waits for the stage, not the stage for the attempt."""
        self._awaited.add(stage)
        try:
            yield
        finally:
            self._awaited.discard(stage)
        self.note()

    @contextmanager
    def excused(self) -> Iterator[None]:
        """Inside this block the attempt waits for a slot: nothing needs to move."""
        self._excused = True
        try:
            yield
        finally:
            self._excused = False
            self.note()

    async def raise_when_stalled(self) -> None:
        """Raises StageError once nothing moved for too long."""
        # An Event would need renewing with every frame; looking again when time is up is cheap.
        while (left := self._left) > 0:  # noqa: ASYNC110
            # Meanwhile the attempt may come to wait for a stage that is given less time.
            await asyncio.sleep(min(left, self._shortest))
        raise StageError(
            self._culprit,
            TimedOutError(f"nothing moved for {self._limit:g} s", reason=Reason.STALLED),
        )

    @property
    def _left(self) -> float:
        """Seconds until the attempt has stalled, if nothing moves."""
        return self._limit if self._excused else self._last + self._limit - self._clock()

    @property
    def _culprit(self) -> StageId:
        """Later stages wait for earlier ones: the earliest stage waited for is to blame."""
        return min(self._awaited, key=stage_position, default=job_pb2.STAGE_UNSPECIFIED)

    @property
    def _limit(self) -> float:
        return self._by_stage.get(self._culprit, self._seconds)
