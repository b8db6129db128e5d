"""Stopping the jobs of a cancelled collection."""

import asyncio
from collections.abc import Iterable

from structlog import get_logger

from mesh.errors import MeshError, NotFoundError
from orchestrator.control import Control

log = get_logger(__name__)

AT_ONCE = 8


async def stop_jobs(control: Control, job_ids: Iterable[str], note: str) -> None:
    """Returns once each was told; whoever does not answer stops when it sees the mark."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def stop_one(job_id: str) -> None:
        async with turn:
            try:
                await control.cancel(job_id, note)
            except NotFoundError:  # deleted, or never made
                return
            except MeshError as error:
                log.warning("a member does not stop yet", job_id=job_id, error=str(error))

    await asyncio.gather(*(stop_one(job_id) for job_id in job_ids))
