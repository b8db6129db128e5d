"""All jobs in memory, newest first, brought up to date by reading what changed in the bucket."""

import asyncio
import heapq
import re
import unicodedata
from bisect import bisect_left, insort
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice

from google.protobuf.message import DecodeError
from nats.aio.msg import Msg
from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import InvalidRequestError, MeshError
from mesh.reasons import Reason
from orchestrator.paging import page_size
from orchestrator.sharing import Shared
from orchestrator.stages import StateId
from ytcaption.v1 import job_pb2

log = get_logger(__name__)

IDLE_SECONDS = 1.0
READ_BATCH = 1000
MAX_QUERY = 200
ID_BEGINS = re.compile("[0-9a-f-]+")


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs, and where the next ones begin."""

    jobs: list[job_pb2.Job]
    next_token: str
    total: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which jobs, and how many of them."""

    size: int
    token: str = ""
    states: frozenset[StateId] = frozenset()
    query: str = ""

    @classmethod
    def checked(
        cls, size: int, token: str, states: Collection[StateId], query: str = ""
    ) -> "Wanted":
        """What a caller asks for; InvalidRequestError if it makes no sense."""
        if len(query) > MAX_QUERY:
            raise InvalidRequestError(
                f"query is over {MAX_QUERY} characters", reason=Reason.REQUEST_INVALID
            )
        return cls(page_size(size), token, frozenset(states), query)


class Shelf:
    """Records as they are stored, in order within their state: no query looks at all of them."""

    def __init__(self) -> None:
        self._records: dict[str, tuple[StateId, bytes]] = {}
        self._by_state: dict[StateId, list[str]] = {}
        self._words: dict[str, str] = {}
        """What a search looks at, made once for each change: a query reads no record."""

    def put(self, job_id: str, data: bytes) -> None:
        """Takes in a new record, or one that changed."""
        job = job_pb2.JobRecord.FromString(data).job
        state = job.state
        known = self._records.get(job_id)
        self._records[job_id] = (state, data)
        self._words[job_id] = _words_of(job)
        if known is not None:
            if known[0] == state:
                return
            self._take_out(job_id, known[0])
        insort(self._by_state.setdefault(state, []), job_id)

    def remove(self, job_id: str) -> None:
        """Forgets a record, if it is there."""
        known = self._records.pop(job_id, None)
        if known is not None:
            del self._words[job_id]
            self._take_out(job_id, known[0])

    def _take_out(self, job_id: str, state: StateId) -> None:
        ids = self._by_state[state]
        del ids[bisect_left(ids, job_id)]

    def page(self, size: int, token: str, states: Collection[StateId], query: str = "") -> Page:
        """Jobs older than the token's, newest first; no states and no query mean all."""
        chosen = [ids for state, ids in self._by_state.items() if not states or state in states]
        if wanted := _comparable(query):
            chosen = [self._matching(ids, wanted) for ids in chosen]
        newest_first = heapq.merge(*(_before(ids, token) for ids in chosen), reverse=True)
        found = list(islice(newest_first, size + 1))
        return Page(
            jobs=[self._job(job_id) for job_id in found[:size]],
            next_token=found[size - 1] if len(found) > size else "",
            total=sum(map(len, chosen)),
        )

    def _matching(self, ids: list[str], wanted: str) -> list[str]:
        words = self._words
        if not ID_BEGINS.fullmatch(wanted):  # half the work, and most searches are of this kind
            return [one for one in ids if wanted in words[one]]
        return [one for one in ids if wanted in words[one] or one.startswith(wanted)]

    def stored(self, job_id: str) -> bytes | None:
        """The record as it is stored; the same object until it changes."""
        known = self._records.get(job_id)
        return known[1] if known else None

    def state(self, job_id: str) -> "StateId | None":
        """Where a job stands, if it is there."""
        known = self._records.get(job_id)
        return known[0] if known else None

    def _job(self, job_id: str) -> job_pb2.Job:
        return job_pb2.JobRecord.FromString(self._records[job_id][1]).job

    def counts(self) -> dict[StateId, int]:
        """How many jobs are in each state."""
        return {state: len(ids) for state, ids in self._by_state.items() if ids}


def _words_of(job: job_pb2.Job) -> str:
    """Title, address and file name; what stands between them is in no query."""
    parts = (job.media.title, job.source.url, job.source.upload.file_name)
    return "\n".join(_comparable(part) for part in parts if part)


def _comparable(text: str) -> str:
    """Equal for what a reader takes for the same: in whatever case, however composed and spaced."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def _before(ids: list[str], token: str) -> "map[str]":
    end = bisect_left(ids, token) if token else len(ids)
    return map(ids.__getitem__, range(end - 1, -1, -1))


class JobIndex:
    """Kept from the bucket alone, so any replica can answer; asks the broker only for changes."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._stream = f"KV_{bus.names.jobs_bucket}"
        self._root = f"$KV.{bus.names.jobs_bucket}."
        self._sequence = 0
        self._shelf = Shelf()
        self._read_changes = Shared(self._read)
        self._besides: dict[str, Callable[[str, bytes], None]] = {}

    def also_read(self, root: str, take: Callable[[str, bytes], None]) -> None:
        """Hands on what else the bucket holds under such keys; b"" if it is gone.

        To be said before the first reading: then one reading serves both.
        """
        self._besides[root] = take

    @property
    def sequence(self) -> int:
        """Of the newest change that was read."""
        return self._sequence

    @asynccontextmanager
    async def hints(self, heard: Callable[[], None]) -> AsyncIterator[None]:
        """Says that something changes; perhaps before it is stored, perhaps not at all."""

        async def hint(_: Msg) -> None:
            heard()

        listening = await self._bus.client.subscribe(f"{self._root}>", cb=hint)
        try:
            yield
        finally:
            if not self._bus.client.is_closed:
                await listening.unsubscribe()

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
        await self._read_changes()

    async def _read(self) -> None:
        changes = self._bus.read(self._stream, f"{self._root}>", self._sequence, batch=READ_BATCH)
        async for change in changes:
            key = change.subject.removeprefix(self._root)
            data = b"" if change.deleted else change.data
            root, dot, rest = key.partition(".")
            if not dot:
                self._apply(key, data)
            elif take := self._besides.get(root):
                take(rest, data)
            self._sequence = change.sequence

    def _apply(self, job_id: str, data: bytes) -> None:
        if not data:
            self._shelf.remove(job_id)
            return
        try:
            self._shelf.put(job_id, data)
        except DecodeError:  # one record nobody can read must not hide the others
            log.warning("a record that is none is left out", job_id=job_id)
            self._shelf.remove(job_id)

    def stored(self, job_id: str) -> bytes | None:
        """A job's record as it was last read; the same object until it changes."""
        return self._shelf.stored(job_id)

    def state(self, job_id: str) -> "StateId | None":
        """Where a job stood when it was last read; None if it was not there."""
        return self._shelf.state(job_id)

    def progress(self, job_id: str) -> float | None:
        """How far a job was when it was last read; None if nobody knows."""
        stored = self._shelf.stored(job_id)
        job = job_pb2.JobRecord.FromString(stored or b"").job
        return job.progress if job.HasField("progress") else None

    async def page(
        self, size: int, token: str, states: Collection[StateId], query: str = ""
    ) -> Page:
        """Jobs older than the token's, newest first."""
        wanted = Wanted.checked(size, token, states, query)
        await self.catch_up()
        return self.look(wanted)

    def look(self, wanted: Wanted) -> Page:
        """The page as it was last read."""
        return self._shelf.page(wanted.size, wanted.token, wanted.states, wanted.query)

    async def counts(self) -> dict[StateId, int]:
        """How many jobs are in each state."""
        await self.catch_up()
        return self._shelf.counts()
