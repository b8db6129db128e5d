"""Another chance for what died.

What is not a job is handed to whoever sends its kind again (`Resend`), then its letter goes. A dead
job gets another life: the same id, its story goes on.

The order, and what a kill -9 after each step leaves behind:

1. The work item, marked with the attempt that died. From here on the replay is a promise: whatever
   happens to us, a runner gets the item, sees the mark, and does the steps below itself.
2. JOB_ACCEPTED into the story, fenced. A runner finds the record still FAILED by the marked attempt
   and goes on with step 3; without the mark it would take the item for a left-over and drop it.
3. The record: QUEUED again, by compare-and-set. Now the job runs like any other. The story comes
   first so that nobody who watches a QUEUED job finds its story ended.
4. The collection the job is a member of, if any, gets its item again: it may have been settled.
5. The dead letter goes. Last, so that a job is never without a letter, a promise or an end. One
   that outlives its replay is removed by the runner, and not listed meanwhile.

The mark names the one death it undoes: attempts never count back, so an item that comes late finds
another attempt in the record and does nothing. Two replays at once put one item, and one of them
wins each step.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import NotFoundError, UnavailableError, UnsupportedError
from mesh.reasons import Reason
from orchestrator.collections.queue import CollectionQueue
from orchestrator.deadletters import DeadLetters
from orchestrator.ending import reset_stages, tell_end
from orchestrator.history import read_history
from orchestrator.jobs import MAX_RACES, ConflictError, Jobs, Kept
from orchestrator.queue import WorkQueue
from orchestrator.story import StoryReader, StoryWriter
from ytcaption.v1 import event_pb2, job_pb2

log = get_logger(__name__)

LetterKindId: TypeAlias = "job_pb2.LetterKind.ValueType"
Resend: TypeAlias = Callable[[job_pb2.DeadLetter], Awaitable[None]]
"""Sends what a letter holds again, durably; doing so twice must be harmless."""


class Replays:
    """Begins replays, and ends those that others began."""

    def __init__(
        self,
        bus: Bus,
        queue: WorkQueue,
        *,
        max_attempts: int,
        resend: Mapping[LetterKindId, Resend] | None = None,
    ) -> None:
        self._bus = bus
        self._queue = queue
        self._jobs = Jobs(bus)
        self._letters = DeadLetters(bus)
        self._max_attempts = max_attempts
        self._resend = dict(resend or {})
        self._collections = CollectionQueue(bus)

    async def replay(self, letter_id: str) -> job_pb2.Job | None:
        """The job that is queued again; None if something else is sent again."""
        letter = await self._letters.of(letter_id)
        if letter is None:
            raise _not_dead(letter_id)
        if letter.kind == job_pb2.LETTER_KIND_JOB:
            return await self._replay_job(letter)
        await self._send_again(letter)
        return None

    async def _send_again(self, letter: job_pb2.DeadLetter) -> None:
        resend = self._resend.get(letter.kind)
        if resend is None:
            raise UnsupportedError(
                f"letters of kind {letter.kind} cannot be replayed here",
                reason=Reason.NOT_IMPLEMENTED,
            )
        await resend(letter)
        # Last, so that it is never neither sent nor kept.
        await self._letters.remove(letter)
        log.info("dead letter replayed", letter_id=letter.letter_id, kind=letter.kind)

    async def _replay_job(self, letter: job_pb2.DeadLetter) -> job_pb2.Job:
        kept = await self._jobs.get(letter.job_id)
        if not _died_of(kept, letter.attempts):  # replayed by somebody who died before step 5
            raise _not_dead(letter.job_id)
        await self._queue.put_replay(kept.job, letter.attempts)
        kept = await self.complete(kept.job.job_id, letter.attempts)
        log.info("dead job replayed", job_id=kept.job.job_id, attempts=letter.attempts)
        return kept.job

    async def complete(self, job_id: str, death: int) -> Kept:
        """All that follows from the work item; done again by the runner if we die."""
        kept = await self._revive(job_id, death)
        if kept.job.collection_id:  # which may be settled, and must hear what becomes of it
            await self._collections.put(kept.job.collection_id)
        letter = await self._letters.of(job_id)
        if letter is not None and letter.attempts <= death:
            await self._letters.remove(letter)
        return kept

    async def _revive(self, job_id: str, death: int) -> Kept:
        for _ in range(MAX_RACES):
            # The story is read before the record: if the record is still that of the death, an
            # append that passes the fence cannot land in a later life.
            history = await read_history(StoryReader(self._bus), job_id)
            kept = await self._jobs.get(job_id)
            if not _died_of(kept, death):
                return kept
            try:
                story = StoryWriter(self._bus, kept.job, history.last_sequence, patience_seconds=0)
                told = history.earlier_attempts == death
                if not told and not history.finished:  # its runner died before the last word
                    await tell_end(self._bus, kept.job, story, result_told=history.result_told)
                self._queue_again(kept.record)
                if not told:
                    accepted = event_pb2.JobAccepted(job=kept.job)
                    await story.tell(event_pb2.EVENT_TYPE_JOB_ACCEPTED, job_accepted=accepted)
                await self._jobs.save(kept)
            except ConflictError:
                continue
            return kept
        raise UnavailableError(
            "the job changes too fast to be replayed", reason=Reason.STORAGE_UNAVAILABLE
        )

    def _queue_again(self, record: job_pb2.JobRecord) -> None:
        record.cancel_requested = False
        record.runner_id = ""
        job = record.job
        job.state = job_pb2.JOB_STATE_QUEUED
        job.max_attempts = job.attempt + self._max_attempts
        for field in ("failure", "end_time", "progress", "cancel_note"):
            job.ClearField(field)
        reset_stages(job)


def _died_of(kept: Kept, attempt: int) -> bool:
    return kept.job.state == job_pb2.JOB_STATE_FAILED and kept.job.attempt == attempt


def _not_dead(letter_id: str) -> NotFoundError:
    return NotFoundError(
        f"no dead letter of {letter_id[:64]!r}", reason=Reason.DEAD_LETTER_NOT_FOUND
    )
