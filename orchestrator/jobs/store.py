"""The store of job records: changed only by compare-and-set, with keys that reserve their ids.

`RecordStore` is the part that collections share: their records are in the same bucket.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar, Generic, TypeVar
from uuid import UUID

from google.protobuf.message import DecodeError, Message
from google.protobuf.timestamp import from_current_time

from mesh.bus import Bus, storing
from mesh.correlation import new_id
from mesh.errors import InternalError, NotFoundError, UnavailableError
from mesh.identity import ALL
from mesh.identity import current as current_caller
from mesh.reasons import Reason
from mesh.watching import TERMINAL
from orchestrator.access.audit import about
from ytcaption.v1 import collection_pb2, job_pb2, task_pb2

RecordT = TypeVar("RecordT", bound=Message)
MAX_RACES = 20
ACTIVE = frozenset({job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_RUNNING})


class UnreadableError(InternalError):
    """The value of a key is not a record."""


class ConflictError(Exception):
    """The record was changed or created by another writer first."""


@dataclass(slots=True)
class Versioned(ABC, Generic[RecordT]):
    """A record and the revision it was read or written at."""

    record: RecordT
    revision: int

    @property
    @abstractmethod
    def id(self) -> str:
        """The id of the job, collection or task."""

    @property
    @abstractmethod
    def entity(self) -> job_pb2.Job | collection_pb2.Collection | task_pb2.TaskRecord:
        """The job or collection as callers see it, or the task."""


VersionedT = TypeVar("VersionedT", bound=Versioned[Any])


@dataclass(frozen=True, slots=True)
class Pointer:
    """A key of the bucket that stands for a job or collection: a request, or a cached result."""

    key: str
    id: str = ""
    revision: int = 0


@dataclass(frozen=True, slots=True)
class ReservedId(Generic[VersionedT]):
    """The id reserved for a request_id, and the record if the request was accepted before."""

    id: str
    request_key: str
    """The hash of the request_id; "" without one."""
    accepted: VersionedT | None


class RecordStore(Generic[RecordT, VersionedT]):
    """Reads and writes records of one kind."""

    root: ClassVar[str] = ""
    """The prefix of the records' keys."""
    requests: ClassVar[str]
    """The prefix of the keys that stand for a request_id."""
    what: ClassVar[str]
    missing: ClassVar[Reason]
    record: type[RecordT]
    versioned: type[VersionedT]

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def create(self, record: RecordT) -> VersionedT:
        """Stores a new record durably; ConflictError if its id is taken."""
        versioned = self.versioned(record, 0)
        await self.save(versioned)
        return versioned

    async def get(self, id_: str) -> VersionedT:
        """The record with that id, or NotFoundError."""
        try:
            stored = await self._bus.get_key(f"{self.root}{UUID(id_)}")
        except ValueError:
            stored = None
        if stored is None:
            raise self._missing(id_)
        try:
            return self.versioned(self.record.FromString(stored.data), stored.sequence)
        except DecodeError as error:
            raise UnreadableError(
                f"the record of {self.what} {id_!r} cannot be read",
                reason=Reason.RECORD_UNREADABLE,
            ) from error

    def _missing(self, id_: str) -> NotFoundError:
        return NotFoundError(f"no {self.what} {id_[:64]!r}", reason=self.missing)

    async def visible(self, id_: str) -> VersionedT:
        """The record with that id if the caller may see it; else the same NotFoundError."""
        about(id_)
        versioned = await self.get(id_)
        if not current_caller().sees(versioned.entity.owner, versioned.entity.group):
            raise self._missing(id_)
        return versioned

    async def check_visible(self, id_: str) -> None:
        """Raises NotFoundError if the record exists, but not for the caller."""
        about(id_)
        if current_caller().scope != ALL:
            await self.visible(id_)

    async def exists(self, id_: str) -> bool:
        """Whether there is a record with that id."""
        try:
            await self.get(id_)
        except NotFoundError:
            return False
        return True

    async def save(self, versioned: VersionedT) -> None:
        """Writes the record; ConflictError if it changed since it was read."""
        versioned.entity.update_time.CopyFrom(from_current_time())
        key, data = self.root + versioned.id, versioned.record.SerializeToString()
        versioned.revision = await self._put(key, data, versioned.revision)

    async def _put(self, key: str, data: bytes, last: int) -> int:
        revision = await self._bus.put_key(key, data, last)
        if revision is None:
            raise ConflictError(key)
        return revision

    async def change(self, id_: str, mutate: Callable[[RecordT], bool]) -> VersionedT:
        """Applies `mutate` to the newest record until that is stored, or until it returns False."""
        for _ in range(MAX_RACES):
            versioned = await self.get(id_)
            if not mutate(versioned.record):
                return versioned
            try:
                await self.save(versioned)
            except ConflictError:
                continue
            return versioned
        raise UnavailableError(
            f"the {self.what} changes too often to be changed now",
            reason=Reason.STORAGE_UNAVAILABLE,
        )

    async def remove(self, id_: str) -> None:
        """Removes the record; an empty tombstone stays."""
        async with storing():
            await self._bus.jobs.purge(self.root + id_)

    async def reserve(self, request_id: str, owner: str = "") -> ReservedId[VersionedT]:
        """Reserves an id for an owner's request_id, once: a repeated request gets the same id."""
        id_ = new_id()
        if not request_id:
            return ReservedId(id_, "", None)
        key = request_key(request_id, owner)
        try:
            await self.point(Pointer(self.requests + key), id_)
        except ConflictError:
            id_ = (await self.pointer(self.requests + key)).id
        else:
            return ReservedId(id_, key, None)
        try:
            return ReservedId(id_, key, await self.get(id_))
        except NotFoundError:  # an earlier try died half-way
            return ReservedId(id_, key, None)

    async def reserved(self, request_id: str) -> ReservedId[VersionedT] | None:
        """What was reserved for a request_id that made no record yet; None if nothing was."""
        key = request_key(request_id)
        id_ = (await self.pointer(self.requests + key)).id
        return ReservedId(id_, key, None) if id_ else None

    async def release(self, request_key: str) -> None:
        """Frees the request_id with that key, if any."""
        if request_key:
            await self.remove_pointer(self.requests + request_key)

    async def pointer(self, key: str) -> Pointer:
        """Where a key points now; to "" if nowhere."""
        stored = await self._bus.get_key(key)
        return Pointer(key, stored.data.decode(), stored.sequence) if stored else Pointer(key)

    async def point(self, pointer: Pointer, id_: str) -> None:
        """Points the key to this id; ConflictError if it was moved since it was read."""
        await self._put(pointer.key, id_.encode(), pointer.revision)

    async def remove_pointer(self, key: str) -> None:
        """Removes a pointer."""
        async with storing():
            await self._bus.jobs.purge(key)


class VersionedJob(Versioned[job_pb2.JobRecord]):
    """A job's record and the revision it was read or written at."""

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.job_id

    @property
    def job(self) -> job_pb2.Job:
        """The job as callers see it."""
        return self.record.job

    @property
    def terminal(self) -> bool:
        """Whether the job can no longer change."""
        return self.job.state in TERMINAL

    entity = job


class JobStore(RecordStore[job_pb2.JobRecord, VersionedJob]):
    """Reads and writes job records."""

    requests = "request."
    what = "job"
    missing = Reason.JOB_NOT_FOUND
    record = job_pb2.JobRecord
    versioned = VersionedJob

    async def stored(self) -> AsyncIterator[tuple[str, bytes]]:
        """The id and the unread record of every job."""
        bucket = self._bus.names.jobs_bucket
        root = f"$KV.{bucket}."
        async for stored in self._bus.read(f"KV_{bucket}", f"{root}*"):
            if not stored.deleted:
                yield stored.subject.removeprefix(root), stored.data


def request_key(request_id: str, owner: str = "") -> str:
    """What stands for an owner's request_id in keys: what others chose does not collide with it."""
    # Neither is longer than 128 printable characters, so this is one request_id of one owner.
    scoped = f"{owner}\0{request_id}" if owner else request_id
    return sha256(scoped.encode()).hexdigest()
