"""The in-memory index of jobs, newest first, kept up to date by reading the bucket's changes."""

import asyncio
import heapq
import re
import unicodedata
from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import AsyncIterator, Callable, Collection, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeAlias, TypeVar

from google.protobuf.message import DecodeError
from nats.aio.msg import Msg
from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import InvalidRequestError, MeshError
from mesh.identity import ALL, Scope, current
from mesh.tasks import SingleFlight
from orchestrator.pipeline.stages import StateId
from orchestrator.queue.paging import Page, fitting, page_size
from orchestrator.quotas.usage import UsageTable
from ytcaption.v1 import job_pb2

log = get_logger(__name__)

IDLE_SECONDS = 1.0
READ_BATCH = 1000
MAX_QUERY = 200
ID_BEGINS = re.compile("[0-9a-f-]+")
TOKEN = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The id of the last job or collection of a page."""
STATES = frozenset(job_pb2.JobState.values()) - {job_pb2.JOB_STATE_UNSPECIFIED}


JobPage: TypeAlias = Page[job_pb2.Job]


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A checked query for one page of jobs, or of collections, which have one list."""

    size: int
    token: str = ""
    states: frozenset[StateId] = frozenset()
    query: str = ""
    scope: Scope = ALL
    """Only what exists for the caller."""

    @classmethod
    def checked(
        cls, size: int, token: str, states: Collection[StateId] = (), query: str = ""
    ) -> "ListQuery":
        """A query of the current caller; InvalidRequestError if it is invalid."""
        if len(query) > MAX_QUERY:
            raise InvalidRequestError(f"query is over {MAX_QUERY} characters")
        if token and not TOKEN.fullmatch(token):
            raise InvalidRequestError("page_token is not one we gave out")
        if unknown := sorted(set(states) - STATES):
            raise InvalidRequestError(f"states: {unknown[0]} is not a state a job can be in")
        return cls(page_size(size), token, frozenset(states), query, current().scope)


GroupT = TypeVar("GroupT", bound=Hashable)


class RecordTable(ABC, Generic[GroupT]):
    """Records as they are stored, sorted by id within their group: no query scans all of them."""

    def __init__(self, usage: UsageTable | None = None) -> None:
        self._usage = usage or UsageTable()
        """What owners use, counted as records are read."""
        self._records: dict[str, tuple[GroupT, bytes]] = {}
        self._owners: dict[str, tuple[str, str]] = {}
        """Owner and group of each record."""
        self._by_group: dict[GroupT, list[str]] = {}

    @abstractmethod
    def _read(self, id_: str, data: bytes, revision: int) -> GroupT:
        """The group of a record; DecodeError if it is unreadable."""

    def apply(self, id_: str, data: bytes, revision: int) -> None:
        """Takes in a change of the bucket; b"" removes. Skips an unreadable record."""
        try:
            if data:
                self.put(id_, data, revision)
                return
        except DecodeError:  # one unreadable record must not hide the others
            log.warning("skip unreadable record", id=id_)
        self.remove(id_)
        self._usage.remove(id_, revision)

    def put(self, id_: str, data: bytes, revision: int = 0) -> None:
        """Takes in a new or changed record."""
        group = self._read(id_, data, revision)
        known = self._records.get(id_)
        self._records[id_] = (group, data)
        if known is not None:
            if known[0] == group:
                return
            self._take_out(id_, known[0])
        insort(self._by_group.setdefault(group, []), id_)

    def remove(self, id_: str) -> None:
        """Removes a record, if it is there."""
        self._owners.pop(id_, None)
        known = self._records.pop(id_, None)
        if known is not None:
            self._take_out(id_, known[0])

    def _take_out(self, id_: str, group: GroupT) -> None:
        ids = self._by_group[group]
        del ids[bisect_left(ids, id_)]

    def stored(self, id_: str) -> bytes | None:
        """The record as it is stored; the same object until it changes."""
        known = self._records.get(id_)
        return known[1] if known else None

    def group(self, id_: str) -> GroupT | None:
        """The group of a record, if it is there."""
        known = self._records.get(id_)
        return known[0] if known else None

    def includes(self, id_: str, scope: Scope) -> bool:
        """Whether a record is there, and in the scope."""
        known = self._owners.get(id_)
        return known is not None and scope.includes(*known)

    def counts(self) -> dict[GroupT, int]:
        """The number of records in each group."""
        return {group: len(ids) for group, ids in self._by_group.items() if ids}

    def ids(self, groups: Collection[GroupT] = ()) -> set[str]:
        """The ids in these groups; in all if none are given."""
        return {id_ for ids in self._chosen(groups) for id_ in ids}

    def owned(self, owner: str) -> list[str]:
        """The ids that belong to an owner, oldest first."""
        return sorted(id_ for id_ in self._records if self._owners.get(id_, ("", ""))[0] == owner)

    def _chosen(self, groups: Collection[GroupT], scope: Scope = ALL) -> list[list[str]]:
        chosen = [ids for group, ids in self._by_group.items() if not groups or group in groups]
        if scope == ALL:
            return chosen
        return [[one for one in ids if scope.includes(*self._owners[one])] for ids in chosen]

    def _page(self, lists: list[list[str]], size: int, token: str) -> tuple[list[bytes], str]:
        """Records older than the token's, newest first, and the next token."""
        newest_first = heapq.merge(*(_before(ids, token) for ids in lists), reverse=True)
        found = list(islice(newest_first, size + 1))
        records = [self._records[id_][1] for id_ in found[:size]]
        end = fitting(map(len, records))
        next_token = found[end - 1] if len(found) > end else ""
        return records[:end], next_token


def _before(ids: list[str], token: str) -> "map[str]":
    end = bisect_left(ids, token) if token else len(ids)
    return map(ids.__getitem__, range(end - 1, -1, -1))


class JobTable(RecordTable[StateId]):
    """Jobs by state, with the text that searches look at."""

    def __init__(self, usage: UsageTable | None = None) -> None:
        super().__init__(usage)
        self._words: dict[str, str] = {}
        """Derived once for each change: a search parses no record."""

    def _read(self, id_: str, data: bytes, revision: int) -> StateId:
        job = job_pb2.JobRecord.FromString(data).job
        self._usage.put_job(id_, job, revision)
        self._words[id_] = _words_of(job)
        self._owners[id_] = (job.owner, job.group)
        return job.state

    def remove(self, id_: str) -> None:
        """Removes a job, if it is there."""
        super().remove(id_)
        self._words.pop(id_, None)

    def page(
        self,
        size: int,
        token: str,
        states: Collection[StateId],
        query: str = "",
        scope: Scope = ALL,
    ) -> JobPage:
        """Jobs older than the token's, newest first; no states, query and scope mean all."""
        chosen = self._chosen(states, scope)
        if wanted := _comparable(query):
            chosen = [self._matching(ids, wanted) for ids in chosen]
        records, next_token = self._page(chosen, size, token)
        jobs = [job_pb2.JobRecord.FromString(data).job for data in records]
        return Page(jobs, next_token, total=sum(map(len, chosen)))

    def _matching(self, ids: list[str], wanted: str) -> list[str]:
        words = self._words
        if not ID_BEGINS.fullmatch(wanted):  # half the work, and most searches are of this kind
            return [one for one in ids if wanted in words[one]]
        return [one for one in ids if wanted in words[one] or one.startswith(wanted)]


def _words_of(job: job_pb2.Job) -> str:
    """Title, address and file name, separated by a character that no query contains."""
    parts = (job.media.title, job.source.url, job.source.upload.file_name)
    return "\n".join(_comparable(part) for part in parts if part)


def _comparable(text: str) -> str:
    """The text normalized for comparison: case, composition and spacing."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


class JobIndex:
    """Built from the bucket alone, so that any replica can answer; reads only changes."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._stream = f"KV_{bus.names.jobs_bucket}"
        self._root = f"$KV.{bus.names.jobs_bucket}."
        self.sequence = 0
        """The sequence of the newest change that was read."""
        self.usage = UsageTable()
        """What owners use, by the same records."""
        self._table = JobTable(self.usage)
        self.stored = self._table.stored
        """A job's record as last read; the same object until it changes."""
        self.state = self._table.group
        """The state of a job as last read; None if there was none."""
        self.includes = self._table.includes
        """Whether a job was there as last read, and in a scope; in any thread."""
        self.catch_up = SingleFlight(self._read)
        """Reads everything acknowledged before the call."""
        self._others: dict[str, Callable[[str, bytes, int], None]] = {}
        self._notified: list[Callable[[str], None]] = []

    def also_notify(self, take: Callable[[str], None]) -> None:
        """Calls `take` with the id of each job that was made, changed or removed, once read.

        Called before the first reading.
        """
        self._notified.append(take)

    def also_read(self, root: str, take: Callable[[str, bytes, int], None]) -> None:
        """Passes on changes of other keys under `root`, with revisions; b"" for a removed one.

        Called before the first reading, so that one reading serves both.
        """
        self._others[root] = take

    @asynccontextmanager
    async def hints(self, notify: Callable[[], None]) -> AsyncIterator[None]:
        """Calls `notify` on changes; perhaps before one is stored, perhaps not at all."""

        async def hint(_: Msg) -> None:
            notify()

        async with self._bus.subscribed(f"{self._root}>", hint):
            yield

    async def keep_warm(self) -> None:
        """Catches up every second, so that a query has little left to read."""
        while True:
            try:
                await self.catch_up()
            except MeshError as error:
                log.warning("the job index cannot catch up", error=str(error))
            await asyncio.sleep(IDLE_SECONDS)

    async def _read(self) -> None:
        changes = self._bus.read(self._stream, f"{self._root}>", self.sequence, batch=READ_BATCH)
        async for change in changes:
            key = change.subject.removeprefix(self._root)
            data = b"" if change.deleted else change.data
            root, dot, rest = key.partition(".")
            if not dot:
                self._table.apply(key, data, change.sequence)
                for notify in self._notified:
                    notify(key)
            elif take := self._others.get(root):
                take(rest, data, change.sequence)
            self.sequence = change.sequence

    def progress(self, job_id: str) -> float | None:
        """The progress of a job as last read; None if unknown."""
        stored = self.stored(job_id)
        job = job_pb2.JobRecord.FromString(stored or b"").job
        return job.progress if job.HasField("progress") else None

    async def page(
        self, size: int, token: str, states: Collection[StateId], query: str = ""
    ) -> JobPage:
        """Jobs older than the token's, newest first."""
        wanted = ListQuery.checked(size, token, states, query)
        await self.catch_up()
        return self.look(wanted)

    def look(self, wanted: ListQuery) -> JobPage:
        """The page as it was last read."""
        return self._table.page(
            wanted.size, wanted.token, wanted.states, wanted.query, wanted.scope
        )

    async def ids(self, states: Collection[StateId]) -> set[str]:
        """The ids of all jobs in these states."""
        await self.catch_up()
        return self._table.ids(states)

    async def owned(self, owner: str) -> list[str]:
        """The ids of an owner's jobs, oldest first."""
        await self.catch_up()
        return self._table.owned(owner)

    async def counts(self) -> dict[StateId, int]:
        """The number of jobs in each state."""
        await self.catch_up()
        return self._table.counts()
