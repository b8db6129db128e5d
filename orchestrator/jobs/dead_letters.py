"""The dead-letter queue: one letter for each job, event or webhook that was given up."""

from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from mesh.bus import Bus, Stored
from mesh.errors import NotFoundError
from mesh.identity import ALL, Scope, current
from mesh.tasks import map_concurrently
from orchestrator.access.audit import about
from orchestrator.jobs.store import JobStore, UnreadableError
from orchestrator.queue.paging import Page, stream_page
from ytcaption.v1 import job_pb2

AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Selects letters; an empty field matches all."""

    job_id: str = ""
    reason: str = ""
    before: datetime | None = None
    scope: Scope = ALL

    def includes(self, letter: job_pb2.DeadLetter) -> bool:
        """Whether the letter matches."""
        dead = letter.dead_time.ToDatetime(UTC)
        return (
            self.scope.includes(letter.owner, letter.group)
            and (not self.reason or letter.failure.reason == self.reason)
            and (self.before is None or dead < self.before)
        )


class DeadLetters:
    """Writes, lists and removes letters."""

    def __init__(self, bus: Bus, jobs: JobStore) -> None:
        self._bus = bus
        self._jobs = jobs
        self._stream = bus.names.dead_letter_stream

    async def add_job(self, job: job_pb2.Job) -> None:
        """Writes the letter of a failed job once; it replaces that of an earlier failure."""
        letter = job_pb2.DeadLetter(
            kind=job_pb2.LETTER_KIND_JOB,
            letter_id=job.job_id,
            job_id=job.job_id,
            correlation_id=job.correlation_id,
            work_item=job_pb2.WorkItem(
                job_id=job.job_id,
                correlation_id=job.correlation_id,
                enqueue_time=job.create_time,
            ),
            failure=job.failure,
            attempts=job.attempt,
            first_attempt_time=job.start_time,
            dead_time=job.end_time,
            owner=job.owner,
            group=job.group,
        )
        await self.add_newest(letter)

    async def add_newest(self, letter: job_pb2.DeadLetter) -> None:
        """Writes the letter of a job or task once; it replaces that of an earlier failure."""
        while not await self.add(letter):
            there = await self.of(letter.letter_id)
            if there is None or there.attempts >= letter.attempts:
                return
            await self.remove(there)

    async def add(self, letter: job_pb2.DeadLetter) -> bool:
        """Writes a letter, once for each `letter_id`; False if there is one already."""
        sequence = await self._bus.publish_fenced(
            self._stream,
            self._bus.names.dead_letter(letter.letter_id),
            letter.SerializeToString(),
            0,
            # A slow runner must not write it again after a replay removed it.
            message_id=f"{letter.letter_id}.{letter.attempts}",
        )
        return sequence is not None

    async def of(self, letter_id: str) -> job_pb2.DeadLetter | None:
        """Finds a letter; that of a failed job has the job's id."""
        with suppress(ValueError):
            subject = self._bus.names.dead_letter(str(UUID(letter_id)))
            async for stored in self._bus.read(self._stream, subject):
                return _letter(stored)
        return None

    async def page(self, size: int, token: str, reason: str) -> Page[job_pb2.DeadLetter]:
        """Letters the caller sees that are older than the token's, newest first."""
        return await stream_page(
            self._bus,
            self._stream,
            self._bus.names.dead_letter("*"),
            size=size,
            token=token,
            read=_letter,
            wanted=DeadLetterFilter(reason=reason, scope=current().scope).includes,
            check=self._is_dead,
        )

    async def count(self, reason: str) -> int:
        """How many letters the caller sees."""
        choice = DeadLetterFilter(reason=reason, scope=current().scope)
        return len([letter async for letter in self._chosen(choice)])

    async def _is_dead(self, letter: job_pb2.DeadLetter) -> bool:
        """False for a letter that a crashed replay did not remove."""
        if letter.kind != job_pb2.LETTER_KIND_JOB:
            return True
        try:
            job = (await self._jobs.get(letter.job_id)).job
        except NotFoundError:
            return False
        except UnreadableError:
            return True
        return job.state == job_pb2.JOB_STATE_FAILED and job.attempt == letter.attempts

    async def purge(self, choice: DeadLetterFilter, *, dry_run: bool) -> int:
        """Removes the chosen letters, or only counts them; letters written meanwhile stay."""
        about(choice.job_id)
        chosen = [letter async for letter in self._chosen(choice)]
        if dry_run or not chosen:
            return len(chosen)
        if choice == DeadLetterFilter():  # all of them, with one purge
            await self._bus.purge(self._stream, ">", until=chosen[-1].sequence)
            return len(chosen)
        await map_concurrently(self.remove, chosen, at_once=AT_ONCE)
        return len(chosen)

    async def _chosen(self, choice: DeadLetterFilter) -> AsyncIterator[job_pb2.DeadLetter]:
        if choice.job_id:
            letter = await self.of(choice.job_id)
            if letter is not None and choice.includes(letter):
                yield letter
            return
        async for stored in self._bus.read(self._stream, self._bus.names.dead_letter("*")):
            letter = _letter(stored)
            if choice.includes(letter):
                yield letter

    async def remove(self, letter: job_pb2.DeadLetter) -> None:
        """Removes this letter; a later one of the same job stays."""
        subject = self._bus.names.dead_letter(letter.letter_id)
        await self._bus.purge(self._stream, subject, until=letter.sequence)


def _letter(stored: Stored) -> job_pb2.DeadLetter:
    letter = job_pb2.DeadLetter.FromString(stored.data)
    letter.sequence = stored.sequence
    letter.kind = letter.kind or job_pb2.LETTER_KIND_JOB  # from before there were others
    letter.letter_id = letter.letter_id or letter.job_id
    return letter
