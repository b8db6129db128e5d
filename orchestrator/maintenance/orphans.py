"""Things stored for jobs that were never accepted, or are gone."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from structlog import get_logger

from mesh.bus import Bus, storing
from mesh.errors import NotFoundError
from orchestrator import scratch
from orchestrator.collections.records import REQUESTS, CollectionRecords
from orchestrator.jobs import Jobs
from orchestrator.settings import Settings
from orchestrator.shelves import Shelves

log = get_logger(__name__)

CLAIM_AGE = timedelta(hours=24)
"""An upload may take long; until then its request_id stays claimed."""

SCRATCH_AGE = timedelta(hours=24)
"""Kept audio may rest while the rest of a long recording is heard."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was removed, or would be."""

    files: int = 0
    size: int = 0
    scratch_size: int = 0
    """Of that, what lay in the working folder."""


class Orphans:
    """Safe to run in every replica at once: each only removes what is nobody's for good."""

    def __init__(self, bus: Bus, jobs: Jobs, shelves: Shelves, settings: Settings) -> None:
        self._bus = bus
        self._jobs = jobs
        self._shelves = shelves
        self._settings = settings

    async def remove(self, age: timedelta, *, dry_run: bool = False) -> Found:
        """Removes files older than `age` that belong to no job; and stale claims and scratch."""
        # In this order: a file is stored before its job, and its name after its chunks.
        piles = await self._shelves.piles()
        live = await self.live_ids()
        now = datetime.now(UTC)
        stored = await self._remove_files(piles, live, now - age, dry_run=dry_run)
        left = await self._clear_scratch(dry_run=dry_run)
        found = Found(stored.files + left.files, stored.size + left.size, left.size)
        if dry_run:
            return found
        await self._remove_claims("request", now - CLAIM_AGE, lambda id_: self._exists(id_, live))
        await self._remove_claims(REQUESTS, now - CLAIM_AGE, self._is_collection)
        if found.files:
            log.info("files of nobody removed", files=found.files, bytes=found.size)
        return found

    async def _clear_scratch(self, *, dry_run: bool = False) -> scratch.Leftovers:
        """What died in our working folder, on this machine."""
        idle = max(SCRATCH_AGE.total_seconds(), 2 * self._settings.job_seconds)
        return await asyncio.to_thread(
            scratch.clear, self._settings.work_dir, idle, dry_run=dry_run
        )

    async def live_ids(self) -> set[str]:
        """The ids of all jobs there are."""
        bucket = self._bus.names.jobs_bucket
        root = f"$KV.{bucket}."
        return {
            stored.subject.removeprefix(root)
            async for stored in self._bus.read(f"KV_{bucket}", f"{root}*")
            if not stored.deleted
        }

    async def _remove_files(
        self, piles: set[str], live: set[str], before: datetime, *, dry_run: bool
    ) -> Found:
        files = size = 0
        async for file in self._shelves.files():
            piles.discard(file.nuid)
            if file.time > before or await self._exists(file.job_id, live):
                continue
            if not dry_run:
                await self._shelves.remove(file)
            files, size = files + 1, size + file.size
        for nuid in piles:
            removed = await self._shelves.remove_pile(nuid, before, dry_run=dry_run)
            if removed is not None:
                files, size = files + 1, size + removed
        return Found(files, size)

    async def _exists(self, job_id: str, live: set[str]) -> bool:
        """Asked again if it is not listed, for the job may have come since."""
        if job_id in live:
            return True
        try:
            await self._jobs.get(job_id)
        except NotFoundError:
            return False
        return True

    async def _is_collection(self, collection_id: str) -> bool:
        try:
            await CollectionRecords(self._bus).get(collection_id)
        except NotFoundError:
            return False
        return True

    async def _remove_claims(
        self, root: str, before: datetime, exists: Callable[[str], Awaitable[bool]]
    ) -> None:
        """A request_id whose job or collection never came may make another."""
        bucket = self._bus.names.jobs_bucket
        stream, subject = f"KV_{bucket}", f"$KV.{bucket}.{root}.*"
        async for stored in self._bus.read(stream, subject):
            claimed_for = stored.data.decode(errors="replace")
            if stored.deleted or _made(claimed_for) > before or await exists(claimed_for):
                continue
            async with storing():
                await self._bus.jetstream.purge_stream(
                    stream, subject=stored.subject, seq=stored.sequence + 1
                )


def _made(job_id: str) -> datetime:
    """When a UUIDv7 was made; what is none is as old as can be."""
    try:
        milliseconds = UUID(job_id).int >> 80
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.min.replace(tzinfo=UTC)
