"""Periodic maintenance: the housekeeper runs retention, eviction, orphan removal and erasures."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from time import monotonic

from nats.errors import Error as NatsError
from structlog import get_logger

from mesh.errors import MeshError
from orchestrator.maintenance.erasure import Erasure
from orchestrator.maintenance.eviction import Eviction
from orchestrator.maintenance.orphans import Orphans
from orchestrator.maintenance.retention import Retention

log = get_logger(__name__)

INTERVAL_SECONDS = 60.0
FIRST_SECONDS = 30.0
"""A process that has just started has callers to answer."""

ORPHAN_INTERVAL_SECONDS = 3600.0
"""Orphan removal reads the name of every stored file."""

ORPHAN_AGE = timedelta(hours=1)


class Housekeeper:
    """Runs in every replica; removals are idempotent, so replicas need not agree."""

    def __init__(
        self,
        retention: Retention,
        eviction: Eviction,
        orphans: Orphans,
        erasure: Erasure,
        retention_hours: float,
    ) -> None:
        self._retention = retention
        self._eviction = eviction
        self._orphans = orphans
        self._erasure = erasure
        self._retention_hours = retention_hours
        self._orphans_removed = float("-inf")

    async def run(self) -> None:
        """Runs until cancelled."""
        await asyncio.sleep(FIRST_SECONDS)
        while True:
            for task in (
                self._erasure.finish_abandoned,
                self._retain,
                self._eviction.make_room,
                self._remove_orphans,
            ):
                await _logged(task)
            jitter = random.uniform(0.8, 1.2)  # noqa: S311 # spreads replicas out
            await asyncio.sleep(INTERVAL_SECONDS * jitter)

    async def _retain(self) -> None:
        hours = self._retention_hours
        removed = await self._retention.retain(timedelta(hours=hours) if hours else None)
        if removed.jobs or removed.collections:
            log.info(
                "retention removed ended work",
                jobs=removed.jobs,
                collections=removed.collections,
                bytes=removed.size,
            )

    async def _remove_orphans(self) -> None:
        if monotonic() - self._orphans_removed > ORPHAN_INTERVAL_SECONDS:
            await self._orphans.remove(ORPHAN_AGE)
            self._orphans_removed = monotonic()


async def _logged(task: Callable[[], Awaitable[None]]) -> None:
    """Logs a failure and goes on: the next interval tries again, and jobs must not suffer."""
    try:
        await task()
    except MeshError as error:
        log.warning("maintenance postponed", error=str(error))
    except Exception:
        log.exception("maintenance failed")


async def run_periodically(
    check: Callable[[], Awaitable[None]], interval_seconds: float, name: str
) -> None:
    """Runs until cancelled; a failed check is logged and made up for by the next."""
    while True:
        await asyncio.sleep(interval_seconds)
        try:
            await check()
        except (MeshError, NatsError) as error:
            log.warning("maintenance check failed", check=name, error=str(error))
