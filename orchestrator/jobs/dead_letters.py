"""The dead-letter queue: one letter for each job, event or webhook that was given up."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from nats.js.errors import APIError

from mesh.bus import WRONG_LAST_SEQUENCE, Bus, Stored, storing
from mesh.errors import NotFoundError
from orchestrator.jobs import Jobs, UnreadableError
from orchestrator.paging import newest_first, page_size, sequence_of
from ytcaption.v1 import job_pb2

AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Letters:
    """Some letters, newest first, and where the next ones begin."""

    letters: list[job_pb2.DeadLetter]
    next_token: str


@dataclass(frozen=True, slots=True)
class Choice:
    """Which letters are meant; what is left open means all."""

    job_id: str = ""
    reason: str = ""
    before: datetime | None = None

    def includes(self, letter: job_pb2.DeadLetter) -> bool:
        """Whether it is one of them."""
        dead = letter.dead_time.ToDatetime(UTC)
        return (not self.reason or letter.failure.reason == self.reason) and (
            self.before is None or dead < self.before
        )


class DeadLetters:
    """Writes, lists and removes letters."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._jobs = Jobs(bus)
        self._stream = bus.names.dead_letter_stream

    async def bury(self, job: job_pb2.Job) -> None:
        """Writes the job's letter unless it is there already; one of an earlier death goes."""
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
        )
        while not await self._store(letter):
            there = await self.of(job.job_id)
            if there is None or there.attempts >= job.attempt:
                return
            await self.remove(there)

    async def keep(self, letter: job_pb2.DeadLetter) -> None:
        """Writes a letter that is not about the death of a job; once for each `letter_id`."""
        await self._store(letter)

    async def _store(self, letter: job_pb2.DeadLetter) -> bool:
        headers = {
            "Nats-Expected-Last-Subject-Sequence": "0",
            # A runner that was slow must not write it again after a replay took it away.
            "Nats-Msg-Id": f"{letter.letter_id}.{letter.attempts}",
        }
        subject = self._bus.names.dead_letter(letter.letter_id)
        try:
            await self._bus.publish(subject, letter.SerializeToString(), headers)
        except APIError as error:
            if error.err_code not in WRONG_LAST_SEQUENCE:
                raise
            return False
        return True

    async def of(self, letter_id: str) -> job_pb2.DeadLetter | None:
        """The letter of that id, which is the job's if a job died; if there is one."""
        with suppress(ValueError):
            subject = self._bus.names.dead_letter(str(UUID(letter_id)))
            async for stored in self._bus.read(self._stream, subject):
                return _letter(stored)
        return None

    async def page(self, size: int, token: str, reason: str) -> Letters:
        """Letters older than the token's, newest first."""
        size = page_size(size)
        found: list[job_pb2.DeadLetter] = []
        async for batch in newest_first(
            self._bus,
            self._stream,
            self._bus.names.dead_letter("*"),
            before=sequence_of(token),
            size=size + 1,
            read=_letter,
            wanted=Choice(reason=reason).includes,
        ):
            found += await self._still_dead([letter for _, letter in batch])
            if len(found) > size:
                return Letters(found[:size], str(found[size - 1].sequence))
        return Letters(found, "")

    async def _still_dead(self, letters: list[job_pb2.DeadLetter]) -> list[job_pb2.DeadLetter]:
        """Without those whose job was replayed by somebody who died before taking them away."""
        dead: list[job_pb2.DeadLetter] = []
        for first in range(0, len(letters), AT_ONCE):
            some = letters[first : first + AT_ONCE]
            checked = await asyncio.gather(*map(self._is_dead, some))
            dead += [letter for letter, yes in zip(some, checked, strict=True) if yes]
        return dead

    async def _is_dead(self, letter: job_pb2.DeadLetter) -> bool:
        if letter.kind != job_pb2.LETTER_KIND_JOB:
            return True
        try:
            job = (await self._jobs.get(letter.job_id)).job
        except NotFoundError:
            return False
        except UnreadableError:
            return True
        return job.state == job_pb2.JOB_STATE_FAILED and job.attempt == letter.attempts

    async def purge(self, choice: Choice, *, dry_run: bool) -> int:
        """Removes the chosen letters, or only counts them; letters written meanwhile stay."""
        chosen = [letter async for letter in self._chosen(choice)]
        if dry_run or not chosen:
            return len(chosen)
        if choice == Choice():  # all of them go at one blow
            async with storing():
                await self._bus.jetstream.purge_stream(self._stream, seq=chosen[-1].sequence + 1)
            return len(chosen)
        for first in range(0, len(chosen), AT_ONCE):
            await asyncio.gather(*map(self.remove, chosen[first : first + AT_ONCE]))
        return len(chosen)

    async def _chosen(self, choice: Choice) -> AsyncIterator[job_pb2.DeadLetter]:
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
        """Takes out this very letter; a later one of the same job stays."""
        subject = self._bus.names.dead_letter(letter.letter_id)
        async with storing():
            await self._bus.jetstream.purge_stream(
                self._stream, seq=letter.sequence + 1, subject=subject
            )


def _letter(stored: Stored) -> job_pb2.DeadLetter:
    letter = job_pb2.DeadLetter.FromString(stored.data)
    letter.sequence = stored.sequence
    letter.kind = letter.kind or job_pb2.LETTER_KIND_JOB  # from before there were others
    letter.letter_id = letter.letter_id or letter.job_id
    return letter
