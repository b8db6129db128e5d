"""Slow downloads: a job that only waits for bytes lends its slot to other jobs."""

import asyncio

from mesh.slots import Slot
from orchestrator.pipeline.pipes import Spool
from orchestrator.pipeline.stall import StallWatch

SLOW_BYTES = 64 * 1024
SLOW_SECONDS = 10.0
"""A download that brings fewer bytes in this time is slow, unless the job has others to compute."""
MAX_SLOW_JOBS = 8
"""Most jobs of one orchestrator that run without a slot; more keep theirs."""


async def lend_slot(
    slot: Slot, spool: Spool, slow_jobs: asyncio.Semaphore, watch: StallWatch
) -> None:
    """Releases the slot while the download is slow, until there is something to compute again."""
    while not spool.ended:
        before = spool.written
        await asyncio.sleep(SLOW_SECONDS)
        slow = spool.drained and spool.written - before < SLOW_BYTES
        if slow and not spool.ended and not slow_jobs.locked():
            async with slow_jobs:
                with spool.held():
                    slot.release()
                    await spool.growth(SLOW_BYTES)
                    with watch.excused():
                        await slot.take()
