"""The records of jobs, and the keys that stand for one."""

from dataclasses import dataclass

from google.protobuf.timestamp import from_current_time
from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError

from mesh.bus import storing
from mesh.reasons import Reason
from orchestrator.records import MAX_RACES, ConflictError, Held, Records, UnreadableError
from ytcaption.v1 import job_pb2

__all__ = ["ACTIVE", "MAX_RACES", "TERMINAL", "ConflictError", "Jobs", "Kept", "UnreadableError"]

TERMINAL = frozenset(
    {job_pb2.JOB_STATE_SUCCEEDED, job_pb2.JOB_STATE_FAILED, job_pb2.JOB_STATE_CANCELLED}
)
ACTIVE = frozenset({job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_RUNNING})


class Kept(Held[job_pb2.JobRecord]):
    """A job's record and the revision it was read or written at."""

    @property
    def id(self) -> str:
        """The job's."""
        return self.job.job_id

    @property
    def job(self) -> job_pb2.Job:
        """The job as callers see it."""
        return self.record.job

    @property
    def terminal(self) -> bool:
        """Whether the job can no longer change."""
        return self.job.state in TERMINAL

    def touch(self) -> None:
        """See Held."""
        self.job.update_time.CopyFrom(from_current_time())


@dataclass(frozen=True, slots=True)
class Pointer:
    """A key of the bucket that stands for a job: a request, or a cached result."""

    key: str
    job_id: str = ""
    revision: int = 0


class Jobs(Records[Kept]):
    """Reads and writes job records."""

    what = "job"
    missing = Reason.JOB_NOT_FOUND

    def _read(self, data: bytes, revision: int) -> Kept:
        return Kept(job_pb2.JobRecord.FromString(data), revision)

    async def create(self, record: job_pb2.JobRecord) -> Kept:
        """Stores a new job durably."""
        return await self._create(Kept(record, 0))

    async def job_of_request(self, request_id: str, job_id: str) -> str:
        """The job a request_id stands for; claims it for `job_id` if it is new."""
        return await self.claim(f"request.{request_id}", job_id)

    async def claim(self, key: str, id_: str) -> str:
        """What the key stands for; `id_` if it stood for nothing."""
        try:
            await self.point(Pointer(key), id_)
        except ConflictError:
            return (await self.pointer(key)).job_id
        return id_

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
