"""The bucket of jobs: one record each, changed only by compare-and-set."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from google.protobuf.message import DecodeError
from google.protobuf.timestamp import from_current_time
from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError

from mesh.bus import Bus, storing
from mesh.errors import InternalError, NotFoundError, UnavailableError
from mesh.reasons import Reason
from ytcaption.v1 import job_pb2

TERMINAL = frozenset(
    {job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_FAILED, job_pb2.JOB_STATE_CANCELLED}
)
ACTIVE = frozenset({job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_RUNNING})
MAX_RACES = 20


class UnreadableError(InternalError):
    """What the bucket holds of a job is no record."""


class ConflictError(Exception):
    """Somebody else changed the record first."""


@dataclass(slots=True)
class Kept:
    """A record and the revision it was read or written at."""

    record: job_pb2.JobRecord
    revision: int

    @property
    def job(self) -> job_pb2.Job:
        """The job as callers see it."""
        return self.record.job

    @property
    def terminal(self) -> bool:
        """Whether the job can no longer change."""
        return self.job.state in TERMINAL


@dataclass(frozen=True, slots=True)
class Pointer:
    """A key of the bucket that stands for a job: a request, or a cached result."""

    key: str
    job_id: str = ""
    revision: int = 0


class Jobs:
    """Reads and writes job records."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def create(self, record: job_pb2.JobRecord) -> Kept:
        """Stores a new job durably."""
        record.job.update_time.CopyFrom(from_current_time())
        async with storing():
            revision = await self._bus.jobs.create(record.job.job_id, record.SerializeToString())
        # nats-py hands back the whole acknowledgement here, unlike from update().
        return Kept(record, getattr(revision, "seq", revision))

    async def get(self, job_id: str) -> Kept:
        """The record of a job, or NotFoundError."""
        try:
            async with storing():
                entry = await self._bus.jobs.get(str(UUID(job_id)))
        except (KeyNotFoundError, ValueError) as error:
            raise NotFoundError(f"no job {job_id[:64]!r}", reason=Reason.JOB_NOT_FOUND) from error
        try:
            record = job_pb2.JobRecord.FromString(entry.value or b"")
        except DecodeError as error:
            raise UnreadableError(
                f"the record of job {job_id!r} cannot be read", reason=Reason.RECORD_UNREADABLE
            ) from error
        return Kept(record, entry.revision or 0)

    async def save(self, kept: Kept) -> None:
        """Writes the record if nobody else did since it was read; else ConflictError."""
        kept.job.update_time.CopyFrom(from_current_time())
        try:
            async with storing():
                saved = await self._bus.jobs.update(
                    kept.job.job_id, kept.record.SerializeToString(), last=kept.revision
                )
        except KeyWrongLastSequenceError as error:
            raise ConflictError(kept.job.job_id) from error
        kept.revision = getattr(saved, "seq", saved)

    async def change(self, job_id: str, mutate: Callable[[job_pb2.JobRecord], bool]) -> Kept:
        """Applies `mutate` to the newest record until it is stored, or says False: leave it."""
        for _ in range(MAX_RACES):
            kept = await self.get(job_id)
            if not mutate(kept.record):
                return kept
            try:
                await self.save(kept)
            except ConflictError:
                continue
            return kept
        raise UnavailableError(
            "the job changes too fast to be changed", reason=Reason.STORAGE_UNAVAILABLE
        )

    async def remove(self, job_id: str) -> None:
        """Forgets the record; only a tombstone that holds nothing stays."""
        async with storing():
            await self._bus.jobs.purge(job_id)

    async def job_of_request(self, request_id: str, job_id: str) -> str:
        """The job a request_id stands for; claims it for `job_id` if it is new."""
        pointer = Pointer(f"request.{request_id}")
        try:
            await self.point(pointer, job_id)
        except ConflictError:
            return (await self.pointer(pointer.key)).job_id
        return job_id

    async def pointer(self, key: str) -> "Pointer":
        """Where a key points now; to "" if nowhere."""
        try:
            async with storing():
                entry = await self._bus.jobs.get(key)
        except KeyNotFoundError:
            return Pointer(key)
        return Pointer(key, (entry.value or b"").decode(), entry.revision or 0)

    async def point(self, pointer: "Pointer", job_id: str) -> None:
        """Lets the key point to this job, unless somebody moved it since; then ConflictError."""
        bucket, value = self._bus.jobs, job_id.encode()
        try:
            async with storing():
                if pointer.revision:
                    await bucket.update(pointer.key, value, last=pointer.revision)
                else:
                    await bucket.create(pointer.key, value)
        except KeyWrongLastSequenceError as error:
            raise ConflictError(pointer.key) from error

    async def forget(self, key: str) -> None:
        """Lets the key point nowhere."""
        async with storing():
            await self._bus.jobs.purge(key)
