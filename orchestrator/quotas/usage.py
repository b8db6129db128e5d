"""What owners use, counted from the records of jobs and collections as they are read."""

from collections.abc import Iterable
from dataclasses import dataclass
from time import time
from typing import NamedTuple, TypeAlias

from ytcaption.v1 import collection_pb2, job_pb2
from ytcaption.v1 import quota_pb2 as pb

LimitId: TypeAlias = "pb.QuotaLimit.ValueType"

QUEUED_JOBS = pb.QUOTA_LIMIT_QUEUED_JOBS
RUNNING_JOBS = pb.QUOTA_LIMIT_RUNNING_JOBS
COLLECTIONS = pb.QUOTA_LIMIT_COLLECTIONS
LIVE_STREAMS = pb.QUOTA_LIMIT_LIVE_STREAMS
UPLOADS = pb.QUOTA_LIMIT_UPLOADS
STORED_BYTES = pb.QUOTA_LIMIT_STORED_BYTES
AUDIO_HOURS = pb.QUOTA_LIMIT_AUDIO_HOURS
WEBHOOKS = pb.QUOTA_LIMIT_WEBHOOKS
LIMITS: tuple[LimitId, ...] = (
    QUEUED_JOBS,
    RUNNING_JOBS,
    COLLECTIONS,
    LIVE_STREAMS,
    UPLOADS,
    STORED_BYTES,
    AUDIO_HOURS,
    WEBHOOKS,
)

DAY_SECONDS = 86_400.0
MAX_REMOVED = 10_000
"""Removed records whose last revision is remembered, for claims that they end."""


class Heard(NamedTuple):
    """Audio that was heard, and when, in seconds since 1970."""

    time: float
    seconds: float


class _Entry(NamedTuple):
    owner: str
    revision: int
    amounts: tuple[tuple[LimitId, int], ...]


@dataclass(slots=True)
class _Use:
    amounts: dict[LimitId, int]
    heard: dict[str, Heard]


class UsageTable:
    """Sums by owner, changed with each record: no question scans records."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._removed: dict[str, int] = {}
        self._uses: dict[str, _Use] = {}

    def put_job(self, job_id: str, job: job_pb2.Job, revision: int) -> None:
        """Takes in a new or changed job."""
        self._put(job_id, _Entry(job.owner, revision, tuple(_amounts_of_job(job))))
        heard = heard_of(job)
        if heard.seconds and heard.time > time() - DAY_SECONDS:
            self._use(job.owner).heard[job_id] = heard

    def put_collection(
        self, collection_id: str, collection: collection_pb2.Collection, revision: int
    ) -> None:
        """Takes in a new or changed collection."""
        amounts: list[tuple[LimitId, int]] = []
        if not collection.settled:
            amounts.append((COLLECTIONS, 1))
            if collection.webhook_url:
                amounts.append((WEBHOOKS, 1))
        self._put(collection_id, _Entry(collection.owner, revision, tuple(amounts)))

    def remove(self, id_: str, revision: int) -> None:
        """Takes in that a record was removed."""
        self._take_out(id_)
        self._removed[id_] = revision
        if len(self._removed) > MAX_REMOVED:
            del self._removed[next(iter(self._removed))]

    def used(self, owner: str, limit: LimitId) -> int:
        """How much of a limit stored records account for."""
        use = self._uses.get(owner)
        return use.amounts.get(limit, 0) if use else 0

    def uses(self, id_: str, limit: LimitId) -> bool:
        """Whether this one record counts for the limit."""
        entry = self._entries.get(id_)
        return entry is not None and any(of == limit for of, _ in entry.amounts)

    def heard(self, owner: str) -> dict[str, Heard]:
        """Audio of the last 24 hours, by job."""
        use = self._uses.get(owner)
        if use is None:
            return {}
        since = time() - DAY_SECONDS
        for job_id in [one for one, heard in use.heard.items() if heard.time <= since]:
            del use.heard[job_id]
        return use.heard

    def revision(self, id_: str) -> int:
        """The revision of a record as last read, also of a removed one; 0 if there was none."""
        entry = self._entries.get(id_)
        return entry.revision if entry else self._removed.get(id_, 0)

    def _put(self, id_: str, entry: _Entry) -> None:
        self._take_out(id_)
        self._removed.pop(id_, None)
        self._entries[id_] = entry
        self._add(entry, 1)

    def _take_out(self, id_: str) -> None:
        entry = self._entries.pop(id_, None)
        if entry is not None:
            self._add(entry, -1)
            self._use(entry.owner).heard.pop(id_, None)

    def _add(self, entry: _Entry, sign: int) -> None:
        amounts = self._use(entry.owner).amounts
        for limit, amount in entry.amounts:
            amounts[limit] = amounts.get(limit, 0) + sign * amount

    def _use(self, owner: str) -> _Use:
        use = self._uses.get(owner)
        if use is None:
            use = self._uses[owner] = _Use({}, {})
        return use


def _amounts_of_job(job: job_pb2.Job) -> Iterable[tuple[LimitId, int]]:
    if job.state == job_pb2.JOB_STATE_QUEUED:
        yield QUEUED_JOBS, 1
    elif job.state == job_pb2.JOB_STATE_RUNNING:
        yield RUNNING_JOBS, 1
    if job.webhook_url and not job.HasField("end_time"):
        yield WEBHOOKS, 1
    stored = job.source.upload.size_bytes + sum(one.size_bytes for one in job.artifacts)
    if stored:
        yield STORED_BYTES, stored


def heard_of(job: job_pb2.Job) -> Heard:
    """How much of the recording counts as heard: all of it while it runs and once it succeeded.

    Of an attempt that ended otherwise the part that was heard counts. Nothing was heard for a
    copied result and for human captions.
    """
    if job.cached_from_job_id or job.HasField("human_captions"):
        return Heard(0, 0)
    whole = job.state in (job_pb2.JOB_STATE_RUNNING, job_pb2.JOB_STATE_SUCCEEDED)
    at = job.end_time if job.HasField("end_time") else job.update_time
    duration = job.media.duration
    seconds = duration.seconds + duration.nanos / 1e9
    return Heard(at.seconds + at.nanos / 1e9, seconds * (1 if whole else job.progress))
