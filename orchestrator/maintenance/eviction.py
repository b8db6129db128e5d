"""Makes room when a store gets too full: files first, then what is oldest as a whole."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from nats.js.errors import NotFoundError as NoMessageError
from structlog import get_logger

from mesh.bus import Bus, storing
from mesh.errors import NotFoundError
from orchestrator.artifacts import SOURCE, TRANSCRIPT, UPLOAD
from orchestrator.collections.control import AT_ANY_TIME
from orchestrator.jobs import TERMINAL, Jobs
from orchestrator.removal import Ended, Removal, Swept
from orchestrator.room import Room
from orchestrator.settings import Settings
from orchestrator.shelves import File, Shelves
from ytcaption.v1 import job_pb2

log = get_logger(__name__)

GROUP = 20
"""So many go before the stores are looked at again."""
TOLD_WITHIN = timedelta(hours=1)
"""An end is told a little later, and by other clocks."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """Who holds what."""

    with_files: set[str]
    stories_since: datetime
    """What ended before has no story any more: the oldest event there is was stored later."""


class Trimmer:
    """Takes no more than it must, and nothing that would not help."""

    def __init__(self, bus: Bus, settings: Settings, room: Room, removal: Removal) -> None:
        self._bus = bus
        self._settings = settings
        self._room = room
        self._removal = removal
        self._names = bus.names
        self._artifacts = f"OBJ_{bus.names.artifacts_bucket}"
        self._jobs = Jobs(bus)
        self._shelves = Shelves(bus)

    async def make_room(self) -> None:
        """Takes files of ended jobs away while their store is too full; then what is oldest."""
        excess = (await self._excess()).get(self._artifacts)
        if excess:
            await self._drop_files(excess)
        await self._drop_oldest()

    async def _excess(self) -> dict[str, int]:
        """Bytes by which stores that hold what has ended are too full; the others are not named."""
        share = self._settings.trim_percent / 100
        over = {
            fill.stream: fill.used - int(fill.limit * share)
            for fill in await self._room.fills()
            if fill.limit and fill.stream != self._names.work_stream
        }
        return {stream: excess for stream, excess in over.items() if excess > 0}

    async def _drop_files(self, excess: int) -> None:
        """Oldest first. Transcripts are small and what it is all about: they stay."""
        count = size = 0
        async for file in self._shelves.files():
            if size >= excess:
                break
            if file.name != TRANSCRIPT and await self._let_go(file):
                await self._shelves.remove(file)
                count, size = count + 1, size + file.size
        if count:
            log.warning("files removed to make room", files=count, bytes=size)

    async def _let_go(self, file: File) -> bool:
        """Whether the job needs the file no more; its record then no longer names it."""

        def forget(record: job_pb2.JobRecord) -> bool:
            if not _dispensable(record.job, file):
                return False
            kept = [found for found in record.job.artifacts if found.name != file.name]
            changed = len(kept) != len(record.job.artifacts)
            del record.job.artifacts[:]
            record.job.artifacts.extend(kept)
            return changed

        try:
            return _dispensable((await self._jobs.change(file.job_id, forget)).job, file)
        except NotFoundError:  # an orphan: looked after elsewhere
            return False

    async def _drop_oldest(self) -> None:
        """Ended jobs and settled collections go, oldest first, while that helps."""
        over = await self._excess()
        if not over:
            return
        oldest = await self._removal.candidates(AT_ANY_TIME)
        holdings = await self._holdings()
        swept = Swept()
        while over and oldest:
            group, oldest = self._next_group(oldest, over, holdings)
            for ended in group:
                swept += await self._removal.remove(ended, AT_ANY_TIME)
            before, over = over, await self._excess()
            if sum(over.values()) >= sum(before.values()):  # more comes than goes
                break
        log.warning(
            "a store was too full",
            jobs_removed=swept.jobs,
            collections_removed=swept.collections,
            still_over_by=sum(over.values()),
        )

    async def _holdings(self) -> Holdings:
        with_files = {file.job_id async for file in self._shelves.files()}
        first_told = await self._first_told()
        since = first_told - TOLD_WITHIN if first_told else datetime.min.replace(tzinfo=UTC)
        return Holdings(with_files, since)

    async def _first_told(self) -> datetime | None:
        """When the oldest event was stored that there is."""
        jetstream, stream = self._bus.jetstream, self._names.events_stream
        with suppress(NoMessageError):  # it went this very moment
            async with storing():
                state = (await jetstream.stream_info(stream)).state
                if state.messages:
                    return (await jetstream.get_msg(stream, state.first_seq)).time
        return None

    def _next_group(
        self, oldest: list[Ended], over: Mapping[str, int], holdings: Holdings
    ) -> tuple[list[Ended], list[Ended]]:
        """The oldest few that would help, and all that are younger than these."""
        group: list[Ended] = []
        for place, ended in enumerate(oldest):
            if len(group) == GROUP:
                return group, oldest[place:]
            if self._would_help(ended, over, holdings):
                group.append(ended)
        return group, []

    def _would_help(self, ended: Ended, over: Mapping[str, int], holdings: Holdings) -> bool:
        """Everybody has a record, but not everybody a story, a file or a dead letter."""
        names = self._names
        holds = {
            f"KV_{names.jobs_bucket}": True,
            names.events_stream: ended.time > holdings.stories_since,
            self._artifacts: ended.id in holdings.with_files,
            names.dead_letter_stream: ended.may_have_letters,
        }
        return any(holds.get(stream) for stream in over)


def _dispensable(job: job_pb2.Job, file: File) -> bool:
    """A dead job may be replayed: it needs its upload."""
    replayable = job.state == job_pb2.JOB_STATE_FAILED and file.name in (UPLOAD, SOURCE)
    return job.state in TERMINAL and not replayable
