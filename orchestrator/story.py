"""The durable story of a job: appended by one writer at a time, read by anyone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TypeAlias

from google.protobuf.message import Message
from google.protobuf.timestamp import from_current_time
from nats.errors import Error as NatsError
from nats.js.errors import APIError

from mesh.bus import WRONG_LAST_SEQUENCE, Bus, outlast
from mesh.correlation import new_id
from orchestrator.jobs import ConflictError
from ytcaption.v1 import event_pb2, job_pb2

EventTypeId: TypeAlias = "event_pb2.EventType.ValueType"

SEQUENCE = "Ytc-Sequence"
PREVIOUS = "Ytc-Previous"


class StoryReader:
    """Reads stories."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def events(
        self, job_id: str, after: int = 0, *, patience_seconds: float = 0
    ) -> AsyncIterator[tuple[int, event_pb2.Event]]:
        """Stored events with their sequence numbers, oldest first."""
        names = self._bus.names
        stored = self._bus.read(
            names.events_stream,
            names.event(job_id, "*"),
            after,
            patience_seconds=patience_seconds,
        )
        async for message in stored:
            yield message.sequence, event_pb2.Event.FromString(message.data)


class StoryWriter:
    """Appends to one job's story; refused by the broker as soon as somebody else did."""

    def __init__(
        self, bus: Bus, job: job_pb2.Job, last_sequence: int, *, patience_seconds: float = 60
    ) -> None:
        self._bus = bus
        self._job = job
        self._last_sequence = last_sequence
        self._patience = patience_seconds
        self._turn = asyncio.Lock()

    async def append(self, event: event_pb2.Event) -> None:
        """Stores the event, then shows it to watchers; ConflictError if the story moved on."""
        self._fill_in(event)
        # A caller cancelled half-way must not leave us ignorant of what was stored.
        await asyncio.shield(self._append(event))

    async def _append(self, event: event_pb2.Event) -> None:
        async with self._turn:
            sequence = await outlast(lambda: self._store(event), self._patience)
            headers = {SEQUENCE: str(sequence), PREVIOUS: str(self._last_sequence)}
            self._last_sequence = sequence
            live = self._bus.names.live(self._job.job_id, "event")
            # It is stored: watchers find it there if they do not hear of it now.
            with suppress(NatsError):
                await self._bus.client.publish(live, event.SerializeToString(), headers=headers)

    async def _store(self, event: event_pb2.Event) -> int:
        kind = event_pb2.EventType.Name(event.type).removeprefix("EVENT_TYPE_").lower()
        names, job_id = self._bus.names, self._job.job_id
        fence = {
            "Nats-Expected-Last-Subject-Sequence": str(self._last_sequence),
            "Nats-Expected-Last-Subject-Sequence-Subject": names.event(job_id, "*"),
        }
        try:
            return await self._bus.publish(
                names.event(job_id, kind), event.SerializeToString(), fence
            )
        except APIError as error:
            if error.err_code not in WRONG_LAST_SEQUENCE:
                raise
            return await self._find_own(event)

    async def _find_own(self, event: event_pb2.Event) -> int:
        """A publish that timed out may have been stored all the same."""
        async for sequence, stored in StoryReader(self._bus).events(
            self._job.job_id, self._last_sequence
        ):
            if stored.event_id == event.event_id:
                return sequence
            break
        raise ConflictError(self._job.job_id)

    async def tell(self, type_: EventTypeId, **payload: Message) -> None:
        """Appends an event made of its type and its payload."""
        await self.append(event_pb2.Event(type=type_, **payload))  # type: ignore[arg-type]

    def _fill_in(self, event: event_pb2.Event) -> None:
        event.event_id = new_id()
        event.correlation_id = self._job.correlation_id
        event.job_id = self._job.job_id
        event.collection_id = self._job.collection_id
        event.attempt = self._job.attempt
        event.timestamp.CopyFrom(from_current_time())

    async def show_progress(self, progress: job_pb2.JobProgress) -> None:
        """Tells watchers the live figures; nothing is stored."""
        subject = self._bus.names.live(self._job.job_id, "progress")
        with suppress(NatsError):  # the client holds only so much for a broker that is away
            await self._bus.client.publish(subject, progress.SerializeToString())


async def open_story(
    bus: Bus, job: job_pb2.Job, last_sequence: int = 0, *, patience_seconds: float = 60
) -> None:
    """Writes the first event of a life, unless somebody did."""
    writer = StoryWriter(bus, job, last_sequence, patience_seconds=patience_seconds)
    accepted = event_pb2.JobAccepted(job=job)
    with suppress(ConflictError):
        await writer.tell(event_pb2.EVENT_TYPE_JOB_ACCEPTED, job_accepted=accepted)
