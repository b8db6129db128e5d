"""Orphans: stored files, request claims and scratch files that belong to no job or task."""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from structlog import get_logger

from orchestrator.collections.records import REQUESTS, CollectionStore
from orchestrator.jobs.control import Removed
from orchestrator.jobs.storage import JobStorage
from orchestrator.maintenance.inventory import Inventory
from orchestrator.settings import Settings
from orchestrator.tasks.records import TaskStore

log = get_logger(__name__)

CLAIM_AGE = timedelta(hours=24)
"""An upload may take long; until then its request_id stays claimed."""

SCRATCH_AGE = timedelta(hours=24)
"""Kept audio may lie untouched while the rest of a long recording is transcribed."""

SCRATCH_PATTERNS = ("tmp*", "upload-*")
"""Files of attempts (once their folders) and of uploads; nothing else is touched."""


@dataclass(frozen=True, slots=True)
class Orphaned:
    """What was removed, or would be, by place."""

    stored: Removed
    scratch: Removed

    @property
    def total(self) -> Removed:
        """Both places together."""
        return self.stored + self.scratch


@dataclass(frozen=True, slots=True)
class Orphans:
    """Safe to run in every replica at once: each removes only what can never get an owner."""

    storage: JobStorage
    collections: CollectionStore
    inventory: Inventory
    settings: Settings
    tasks: TaskStore

    async def remove(self, age: timedelta, *, dry_run: bool = False) -> Orphaned:
        """Removes files older than `age` that belong to no job, stale claims and scratch files."""
        # In this order: a file is stored before its job, and its name after its chunks.
        uploads = await self.inventory.chunk_groups()
        live = {job_id async for job_id, _ in self.storage.jobs.stored()}
        now = datetime.now(UTC)
        idle = max(SCRATCH_AGE.total_seconds(), 2 * self.settings.job_seconds)
        found = Orphaned(
            await self._remove_files(uploads, live, now - age, dry_run=dry_run),
            await asyncio.to_thread(clear_scratch, self.settings.work_dir, idle, dry_run=dry_run),
        )
        if dry_run:
            return found
        await self._remove_claims("request", now - CLAIM_AGE, lambda id_: self._exists(id_, live))
        await self._remove_claims(REQUESTS, now - CLAIM_AGE, self.collections.exists)
        if found.total.files:
            log.info("orphaned files removed", files=found.total.files, bytes=found.total.size)
        return found

    async def _remove_files(
        self, groups: set[str], live: set[str], before: datetime, *, dry_run: bool
    ) -> Removed:
        removed = Removed()
        async for file in self.inventory.files():
            groups.discard(file.nuid)
            if file.time > before or await self._exists(file.job_id, live):
                continue
            if not dry_run:
                await self.inventory.remove(file)
            removed += Removed(files=1, size=file.size)
        for nuid in groups:
            size = await self.inventory.remove_chunks(nuid, before, dry_run=dry_run)
            if size is not None:
                removed += Removed(files=1, size=size)
        return removed

    async def _exists(self, job_id: str, live: set[str]) -> bool:
        """Asks the store for an unlisted job, which may have been accepted since; or a task."""
        if job_id in live or await self.storage.jobs.exists(job_id):
            return True
        return await self.tasks.exists(job_id)

    async def _remove_claims(
        self, root: str, before: datetime, exists: Callable[[str], Awaitable[bool]]
    ) -> None:
        """Frees a request_id whose job or collection was never accepted."""
        bucket = self.storage.bus.names.jobs_bucket
        stream, subject = f"KV_{bucket}", f"$KV.{bucket}.{root}.*"
        async for stored in self.storage.bus.read(stream, subject):
            claimed_for = stored.data.decode(errors="replace")
            if stored.deleted or _created(claimed_for) > before or await exists(claimed_for):
                continue
            await self.storage.bus.purge(stream, stored.subject, until=stored.sequence)


def _created(id_: str) -> datetime:
    """The time inside a UUIDv7; the oldest time for any other text."""
    try:
        milliseconds = UUID(id_).int >> 80
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.min.replace(tzinfo=UTC)


def clear_scratch(folder: Path, idle_seconds: float, *, dry_run: bool = False) -> Removed:
    """Removes scratch files that dead attempts and uploads left, unchanged for so long."""
    removed = Removed()
    before = time.time() - idle_seconds
    for pattern in SCRATCH_PATTERNS:
        for entry in folder.glob(pattern):
            parts = list(_parts(entry))
            if not parts or max(changed for changed, _ in parts) > before:
                continue
            if not dry_run:
                _remove(entry)
            removed += Removed(files=1, size=sum(size for _, size in parts))
    return removed


def _parts(entry: Path) -> Iterator[tuple[float, int]]:
    """Yields change time and size of each part; stops if the entry vanishes meanwhile."""
    try:
        for path in (entry, *entry.rglob("*")):
            found = path.lstat()
            yield found.st_mtime, 0 if path.is_dir() else found.st_size
    except FileNotFoundError:
        return


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)
