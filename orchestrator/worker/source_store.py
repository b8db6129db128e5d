"""Keeps what was downloaded until the job has succeeded, so that no attempt downloads it twice."""

import asyncio
from pathlib import Path

from structlog import get_logger

from mesh.errors import MeshError
from orchestrator.artifacts import SOURCE, Artifacts

log = get_logger(__name__)

SOON_SECONDS = 3.0
"""A job that ends sooner after its download never pays for a second copy."""


class SourceKeeper:
    """Stores one attempt's spooled download, at most once."""

    def __init__(self, artifacts: Artifacts, job_id: str, spool: Path) -> None:
        self._artifacts = artifacts
        self._job_id = job_id
        self._spool = spool
        self._whole = asyncio.Event()
        self._storing: asyncio.Task[None] | None = None

    def note_whole(self) -> None:
        """Every byte is in the spool."""
        self._whole.set()

    async def keep_soon(self) -> None:
        """Stores the download a little after it is whole."""
        await self._whole.wait()
        await asyncio.sleep(SOON_SECONDS)
        await self.keep()

    async def keep(self) -> None:
        """Stores the download now, if it is whole; a caller that is cancelled does not stop it."""
        if self._whole.is_set():
            self._storing = self._storing or asyncio.create_task(self._store())
            await asyncio.shield(self._storing)

    async def settle(self) -> None:
        """Waits for a copy under way: half of one would lie in the store for ever."""
        if self._storing is not None:
            await self._storing

    async def _store(self) -> None:
        try:
            await self._artifacts.put_file(self._job_id, SOURCE, self._spool)
        except MeshError as error:  # then a next attempt downloads again; that is all
            log.warning("the download could not be kept", error=str(error))
