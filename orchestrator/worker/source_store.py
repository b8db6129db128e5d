"""Stores an attempt's download until the job succeeds, so that no later attempt downloads again."""

import asyncio
from pathlib import Path

from structlog import get_logger

from mesh.errors import MeshError
from orchestrator.jobs.artifacts import SOURCE, Artifacts

log = get_logger(__name__)

SOON_SECONDS = 3.0
"""A job that ends sooner after its download never pays for a second copy."""


class SourceStore:
    """Stores one attempt's spooled download, at most once."""

    def __init__(self, artifacts: Artifacts, job_id: str, spool: Path) -> None:
        self._artifacts = artifacts
        self._job_id = job_id
        self._spool = spool
        self._complete = asyncio.Event()
        self._storing: asyncio.Task[None] | None = None

    @property
    def used(self) -> bool:
        """Whether this attempt has stored its download, or tried to."""
        return self._storing is not None

    def note_complete(self) -> None:
        """Every byte is in the spool."""
        self._complete.set()

    async def store_soon(self) -> None:
        """Stores the download a little after it is complete."""
        await self._complete.wait()
        await asyncio.sleep(SOON_SECONDS)
        await self.store()

    async def store(self) -> None:
        """Stores the download now, if it is complete; cancelling the caller does not stop it."""
        if self._complete.is_set():
            self._storing = self._storing or asyncio.create_task(self._store())
            await asyncio.shield(self._storing)

    async def close(self) -> None:
        """Waits for a copy under way: half of one would stay in the store for ever."""
        if self._storing is not None:
            await self._storing

    async def _store(self) -> None:
        try:
            await self._artifacts.put_file(self._job_id, SOURCE, self._spool)
        except MeshError as error:  # then the next attempt downloads again; that is all
            log.warning("cannot store the download", error=str(error))
