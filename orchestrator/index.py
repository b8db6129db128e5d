"""All jobs in memory, newest first, brought up to date by reading what changed in the bucket."""

import asyncio
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import InvalidRequestError, MeshError
from mesh.reasons import Reason
from orchestrator.stages import StateId
from ytcaption.v1 import job_pb2

log = get_logger(__name__)

DEFAULT_PAGE = 50
MAX_PAGE = 200
IDLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs, and where the next ones begin."""

    jobs: list[job_pb2.Job]
    next_token: str
    total: int


class JobIndex:
    """Kept from the bucket alone, so any replica can answer; asks the broker only for changes."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._stream = f"KV_{bus.names.jobs_bucket}"
        self._root = f"$KV.{bus.names.jobs_bucket}."
        self._sequence = 0
        self._ids: list[str] = []
        self._records: dict[str, tuple[StateId, bytes]] = {}
        self._lock = asyncio.Lock()

    async def keep_warm(self) -> None:
        """Catches up all the time, so that a query finds little left to read."""
        while True:
            try:
                await self.catch_up()
            except MeshError as error:
                log.warning("the job index cannot catch up", error=str(error))
            await asyncio.sleep(IDLE_SECONDS)

    async def catch_up(self) -> None:
        """After this, everything acknowledged before the call is in the index."""
        async with self._lock:
            changes = self._bus.read(self._stream, f"{self._root}>", self._sequence)
            async for change in changes:
                key = change.subject.removeprefix(self._root)
                if "." not in key:
                    self._apply(key, b"" if change.deleted else change.data)
                self._sequence = change.sequence

    def _apply(self, job_id: str, data: bytes) -> None:
        known = job_id in self._records
        if not data:
            if known:
                del self._records[job_id]
                del self._ids[bisect_left(self._ids, job_id)]
            return
        if not known:
            insort(self._ids, job_id)
        job = job_pb2.JobRecord.FromString(data).job
        self._records[job_id] = (job.state, job.SerializeToString())

    async def page(self, size: int, token: str, states: Collection[StateId]) -> Page:
        """Jobs older than the token's, newest first."""
        if size < 0:
            raise InvalidRequestError(
                "page_size must not be negative", reason=Reason.REQUEST_INVALID
            )
        await self.catch_up()
        size = min(size or DEFAULT_PAGE, MAX_PAGE)
        end = bisect_left(self._ids, token) if token else len(self._ids)
        found: list[str] = []
        for position in range(end - 1, -1, -1):
            if self._matches(self._ids[position], states):
                found.append(self._ids[position])
                if len(found) > size:
                    break
        jobs = [job_pb2.Job.FromString(self._records[job_id][1]) for job_id in found[:size]]
        return Page(jobs, found[size - 1] if len(found) > size else "", self._count(states))

    def _matches(self, job_id: str, states: Collection[StateId]) -> bool:
        return not states or self._records[job_id][0] in states

    def _count(self, states: Collection[StateId]) -> int:
        if not states:
            return len(self._ids)
        return sum(1 for state, _ in self._records.values() if state in states)

    async def counts(self) -> dict[StateId, int]:
        """How many jobs are in each state."""
        await self.catch_up()
        return dict(Counter(state for state, _ in self._records.values()))
