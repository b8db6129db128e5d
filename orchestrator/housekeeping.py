"""When house is kept: old things go, room is made, orphans are looked for."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from time import monotonic

from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import MeshError
from orchestrator.collections.control import CollectionControl
from orchestrator.control import Control
from orchestrator.index import JobIndex
from orchestrator.orphans import Orphans
from orchestrator.removal import Removal, Swept
from orchestrator.room import Room
from orchestrator.settings import Settings
from orchestrator.sweeping import Sweeper
from orchestrator.trimming import Trimmer

log = get_logger(__name__)

SWEEP_SECONDS = 60.0
FIRST_SWEEP_SECONDS = 30.0
"""Who has just started has callers to answer."""

SEARCH_SECONDS = 3600.0
"""Looking for orphans reads the name of every file."""

ORPHAN_AGE = timedelta(hours=1)


class Housekeeper:
    """Every replica has one; they may all keep house at once, for what is gone is gone."""

    def __init__(  # noqa: PLR0913 # wiring
        self,
        bus: Bus,
        settings: Settings,
        index: JobIndex,
        control: Control,
        room: Room,
        orphans: Orphans,
        collections: CollectionControl,
    ) -> None:
        removal = Removal(bus, index, control, collections)
        self._sweeper = Sweeper(removal)
        self._trimmer = Trimmer(bus, settings, room, removal)
        self._orphans = orphans
        self._retention_hours = settings.retention_hours
        self._searched = float("-inf")

    async def keep_house(self) -> None:
        """Sweeps until cancelled."""
        await asyncio.sleep(FIRST_SWEEP_SECONDS)
        while True:
            for chore in (self._retire, self._trimmer.make_room, self._search):
                await _survived(chore)
            pause = SWEEP_SECONDS * random.uniform(0.8, 1.2)  # noqa: S311 # replicas part ways
            await asyncio.sleep(pause)

    async def cleanup(self, max_age: timedelta | None = None, *, dry_run: bool = False) -> Swept:
        """See Sweeper."""
        return await self._sweeper.cleanup(max_age, dry_run=dry_run)

    async def _retire(self) -> None:
        if self._retention_hours:
            swept = await self.cleanup(timedelta(hours=self._retention_hours))
            if swept.jobs or swept.collections:
                log.info(
                    "what is old was removed",
                    jobs=swept.jobs,
                    collections=swept.collections,
                    bytes=swept.size,
                )

    async def _search(self) -> None:
        if monotonic() - self._searched > SEARCH_SECONDS:
            await self._orphans.remove(ORPHAN_AGE)
            self._searched = monotonic()


async def _survived(chore: Callable[[], Awaitable[None]]) -> None:
    """Housekeeping that fails is tried again later; the jobs must not suffer for it."""
    try:
        await chore()
    except MeshError as error:
        log.warning("housekeeping was put off", error=str(error))
    except Exception:
        log.exception("housekeeping failed")
