"""Accepting jobs: durable before we say so, once for each request_id, refused if hopeless."""

from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256

from google.protobuf.timestamp import from_current_time
from nats.js.errors import KeyWrongLastSequenceError
from structlog import get_logger

from mesh.bus import Bus
from mesh.correlation import current, new_id
from mesh.errors import LimitExceededError, MeshError, NotFoundError
from orchestrator.cache import cache_key
from orchestrator.ending import reset_stages
from orchestrator.jobs import Jobs
from orchestrator.options import Turn, check_word
from orchestrator.queue import WorkQueue, is_there_already
from orchestrator.story import open_story
from ytcaption.v1 import job_pb2

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ticket:
    """The id a new job will have, unless its request was accepted before."""

    job_id: str
    request_key: str
    accepted: job_pb2.Job | None


@dataclass(frozen=True, slots=True)
class Wish:
    """What a request is made of."""

    source: job_pb2.Source
    options: job_pb2.JobOptions
    turn: Turn
    correlation_id: str = ""
    force: bool = False
    webhook_url: str = ""
    collection_id: str = ""


class Submission:
    """Turns requests into durable jobs."""

    def __init__(self, bus: Bus, jobs: Jobs, queue: WorkQueue, *, max_attempts: int) -> None:
        self._bus = bus
        self._jobs = jobs
        self._queue = queue
        self._max_attempts = max_attempts

    async def ticket(self, request_id: str) -> Ticket:
        """Claims an id for a request; a repeated request gets the job it made before."""
        job_id = new_id()
        if not check_word(request_id, "request_id"):
            return Ticket(job_id, "", None)
        key = _key(request_id)
        job_id = await self._jobs.job_of_request(key, job_id)
        try:
            return Ticket(job_id, key, (await self._jobs.get(job_id)).job)
        except NotFoundError:  # new, or an earlier try died half-way
            return Ticket(job_id, key, None)

    async def claimed(self, request_id: str) -> Ticket | None:
        """The ticket of a request that was claimed before and made no job yet; None if neither."""
        key = _key(request_id)
        pointer = await self._jobs.pointer(f"request.{key}")
        return Ticket(pointer.job_id, key, None) if pointer.job_id else None

    async def accept(self, ticket: Ticket, wish: Wish) -> job_pb2.Job:
        """Returns once both the job and its work item are on disk."""
        named = check_word(wish.correlation_id, "correlation_id")
        job = job_pb2.Job(
            job_id=ticket.job_id,
            correlation_id=named or current() or new_id(),
            collection_id=wish.collection_id,
            source=wish.source,
            options=wish.options,
            state=job_pb2.JOB_STATE_QUEUED,
            max_attempts=self._max_attempts,
            create_time=from_current_time(),
            caller=wish.turn.caller,
            priority=wish.turn.priority,
            webhook_url=wish.webhook_url,
        )
        reset_stages(job)
        # The work item first: a runner that finds no job waits, then drops it. The other way
        # round, a failure in between would leave a job that is queued for ever.
        await self._enqueue(job)
        record = job_pb2.JobRecord(
            job=job,
            request_id=ticket.request_key,
            force=wish.force,
            cache_key=cache_key(wish.source, wish.options),
        )
        try:
            await self._jobs.create(record)
        except KeyWrongLastSequenceError:  # the same request, at the same time
            return (await self._jobs.get(job.job_id)).job
        with suppress(MeshError):  # the runner does it if we cannot
            await open_story(self._bus, job, patience_seconds=0)
        log.info("job accepted", job_id=job.job_id)
        return job

    async def _enqueue(self, job: job_pb2.Job) -> None:
        try:
            await self._queue.put(job)
        except LimitExceededError as error:
            if not is_there_already(error):
                raise
            # Else an earlier try of this request left its item there: that one will do.


def _key(request_id: str) -> str:
    return sha256(request_id.encode()).hexdigest()
