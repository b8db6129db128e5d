"""Replays dead letters.

Events and webhooks are sent again (`Resend`), then their letter is removed. A dead job gets another
life: it keeps its id, and its event log goes on.

The order, and what a kill -9 after each step leaves behind:

1. The work item, marked with the attempt that died. From here on the replay is certain: after a
   crash a runner gets the item, sees the mark, and does the steps below itself.
2. JOB_ACCEPTED into the event log, fenced. A runner finds the record still FAILED by the marked
   attempt and goes on with step 3; without the mark it would drop the item as a left-over.
3. The record: QUEUED again, by compare-and-set. Now the job runs like any other. The event log
   comes first so that a watcher of a QUEUED job never finds its event log ended.
4. The collection the job is a member of, if any, gets its item again: it may have been settled.
5. The dead letter is removed. Last, so that a job always has a letter, a work item or an end. A
   letter that outlives its replay is removed by the runner, and not listed meanwhile.

The mark names the one death it undoes: attempts never count back, so an item that comes late finds
another attempt in the record and does nothing. Two replays at once put one item, and one of them
wins each step.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from structlog import get_logger

from mesh.errors import NotFoundError, UnavailableError, UnsupportedError
from mesh.identity import current
from mesh.reasons import Reason
from orchestrator.access.audit import about
from orchestrator.jobs.completion import append_end
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.resume_state import read_resume_state
from orchestrator.jobs.storage import JobStorage
from orchestrator.jobs.store import MAX_RACES, ConflictError, VersionedJob
from orchestrator.pipeline.stages import reset_stages
from orchestrator.queue.work_queue import WorkQueue
from orchestrator.quotas.quotas import Quotas
from orchestrator.quotas.usage import AUDIO_HOURS, QUEUED_JOBS
from ytcaption.v1 import event_pb2, job_pb2

log = get_logger(__name__)

Resend: TypeAlias = Callable[[job_pb2.DeadLetter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Replays:
    """Begins replays, and completes those that crashed."""

    storage: JobStorage
    queue: WorkQueue
    quotas: Quotas
    max_attempts: int
    resend: Mapping["job_pb2.LetterKind.ValueType", Resend]
    """Send what a letter holds again, durably; doing so twice must be harmless."""
    on_member_revived: Callable[[str], Awaitable[object]]
    """Takes the id of the collection whose member runs again."""

    async def replay(self, letter_id: str) -> job_pb2.Job | None:
        """Returns the job that is queued again; None if the letter is not of a job."""
        about(letter_id)
        letter = await self.storage.dead_letters.of(letter_id)
        if letter is None or not current().sees(letter.owner, letter.group):
            raise _not_dead(letter_id)
        if letter.kind == job_pb2.LETTER_KIND_JOB:
            return await self._replay_job(letter)
        resend = self.resend.get(letter.kind)
        if resend is None:
            raise UnsupportedError(
                f"letters of kind {letter.kind} cannot be replayed here",
                reason=Reason.NOT_IMPLEMENTED,
            )
        await resend(letter)
        # Last, so that a crash never loses it.
        await self.storage.dead_letters.remove(letter)
        log.info("dead letter replayed", letter_id=letter.letter_id, kind=letter.kind)
        return None

    async def _replay_job(self, letter: job_pb2.DeadLetter) -> job_pb2.Job:
        versioned = await self.storage.jobs.get(letter.job_id)
        if not _died_of(versioned, letter.attempts):  # its replay crashed before step 5
            raise _not_dead(letter.job_id)
        job, wanted = versioned.job, {QUEUED_JOBS: 1, AUDIO_HOURS: 0}
        async with self.quotas.admitted(job.owner, job.job_id, wanted):
            await self.queue.put_replay(job, letter.attempts)
            versioned = await self.complete(job.job_id, letter.attempts)
        log.info("dead job replayed", job_id=versioned.job.job_id, attempts=letter.attempts)
        return versioned.job

    async def complete(self, job_id: str, death: int) -> VersionedJob:
        """Does all that follows from the work item; a runner repeats it after a crash."""
        versioned = await self._revive(job_id, death)
        if versioned.job.collection_id:  # which may be settled, and must follow its member again
            await self.on_member_revived(versioned.job.collection_id)
        letter = await self.storage.dead_letters.of(job_id)
        if letter is not None and letter.attempts <= death:
            await self.storage.dead_letters.remove(letter)
        return versioned

    async def _revive(self, job_id: str, death: int) -> VersionedJob:
        for _ in range(MAX_RACES):
            # The event log is read before the record: if the record is still that of the death, an
            # append that passes the fence cannot land in a later life.
            resume_state = await read_resume_state(self.storage.event_logs, job_id)
            versioned = await self.storage.jobs.get(job_id)
            if not _died_of(versioned, death):
                return versioned
            try:
                event_log = EventLogWriter(
                    self.storage.bus, versioned.job, resume_state.last_sequence, patience_seconds=0
                )
                logged = resume_state.earlier_attempts == death
                if not logged and not resume_state.finished:  # its runner died before the end
                    await append_end(
                        self.storage,
                        versioned.job,
                        event_log,
                        result_logged=resume_state.result_logged,
                    )
                self._queue_again(versioned.record)
                if not logged:
                    accepted = event_pb2.JobAccepted(job=versioned.job)
                    await event_log.append(job_accepted=accepted)
                await self.storage.jobs.save(versioned)
            except ConflictError:
                continue
            return versioned
        raise UnavailableError(
            "the job changes too fast to be replayed", reason=Reason.STORAGE_UNAVAILABLE
        )

    def _queue_again(self, record: job_pb2.JobRecord) -> None:
        record.cancel_requested = False
        record.runner_id = ""
        job = record.job
        job.state = job_pb2.JOB_STATE_QUEUED
        job.max_attempts = job.attempt + self.max_attempts
        for field in ("failure", "end_time", "progress", "cancel_note"):
            job.ClearField(field)
        reset_stages(job)


def _died_of(versioned: VersionedJob, attempt: int) -> bool:
    return versioned.job.state == job_pb2.JOB_STATE_FAILED and versioned.job.attempt == attempt


def _not_dead(letter_id: str) -> NotFoundError:
    return NotFoundError(
        f"no dead letter of {letter_id[:64]!r}", reason=Reason.DEAD_LETTER_NOT_FOUND
    )
