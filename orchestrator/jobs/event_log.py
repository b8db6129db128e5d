"""The durable event log of a job or a collection: one fenced writer, any number of readers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from google.protobuf.message import Message
from google.protobuf.timestamp import from_current_time
from nats.errors import Error as NatsError

from mesh.bus import Bus, outlast
from mesh.correlation import new_id
from mesh.stores import owner_tag
from mesh.tasks import uninterrupted
from orchestrator.jobs.store import ConflictError
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2, task_pb2

LogEntity: TypeAlias = job_pb2.Job | collection_pb2.Collection | task_pb2.TaskRecord
"""The job, collection or task an event log belongs to."""
EventTypeId: TypeAlias = "event_pb2.EventType.ValueType"

SEQUENCE = "Ytc-Sequence"
PREVIOUS = "Ytc-Previous"


def id_of(entity: LogEntity) -> str:
    """What the event log of a job, collection or task is stored under."""
    match entity:
        case job_pb2.Job():
            return entity.job_id
        case task_pb2.TaskRecord():
            return entity.task.task_id
    return entity.collection_id


class EventLogReader:
    """Reads event logs."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def events(
        self, entity_id: str, after: int = 0, *, patience_seconds: float = 0
    ) -> AsyncIterator[tuple[int, event_pb2.Event]]:
        """Stored events with their sequence numbers, oldest first."""
        names = self._bus.names
        stored = self._bus.read(
            names.events_stream,
            names.event(entity_id, "*"),
            after,
            patience_seconds=patience_seconds,
        )
        async for message in stored:
            yield message.sequence, event_pb2.Event.FromString(message.data)

    async def newest(
        self, entity_id: str, *, patience_seconds: float = 0
    ) -> tuple[int, event_pb2.Event] | None:
        """The last stored event and its sequence number, as the leader knows it."""
        names = self._bus.names
        ask = partial(self._bus.newest, names.events_stream, names.event(entity_id, "*"))
        stored = await outlast(ask, patience_seconds)
        if stored is None:
            return None
        return stored.sequence, event_pb2.Event.FromString(stored.data)


class EventLogWriter:
    """Appends to one event log; the broker refuses it once another writer has appended."""

    def __init__(
        self, bus: Bus, entity: LogEntity, last_sequence: int, *, patience_seconds: float = 60
    ) -> None:
        self._bus = bus
        self._entity = entity
        self._entity_id = id_of(entity)
        self.last_sequence = last_sequence
        """The sequence of the last stored event."""
        self._patience = patience_seconds
        self._turn = asyncio.Lock()

    async def append_event(self, event: event_pb2.Event) -> None:
        """Stores the event, then publishes it; ConflictError if another writer has appended."""
        self._fill_in(event)
        # A cancelled caller must not leave `last_sequence` behind what is stored.
        await uninterrupted(self._append(event))

    async def _append(self, event: event_pb2.Event) -> None:
        async with self._turn:
            data = event.SerializeToString()
            sequence = await outlast(lambda: self._store(event, data), self._patience)
            headers = {SEQUENCE: str(sequence), PREVIOUS: str(self.last_sequence)}
            self.last_sequence = sequence
            live = self._bus.names.live(self._entity_id, "event")
            # It is stored: watchers that miss this message read it there.
            with suppress(NatsError):
                await self._bus.client.publish(live, data, headers=headers)

    async def _store(self, event: event_pb2.Event, data: bytes) -> int:
        kind = event_pb2.EventType.Name(event.type).removeprefix("EVENT_TYPE_").lower()
        names, entity_id = self._bus.names, self._entity_id
        sequence = await self._bus.publish_fenced(
            names.events_stream,
            names.event(entity_id, kind),
            data,
            self.last_sequence,
            fence=names.event(entity_id, "*"),
            tag=owner_tag(self._entity.owner),
        )
        return await self._find_own(event) if sequence is None else sequence

    async def _find_own(self, event: event_pb2.Event) -> int:
        """A publish that timed out may have been stored all the same."""
        async for sequence, stored in EventLogReader(self._bus).events(
            self._entity_id, self.last_sequence
        ):
            if stored.event_id == event.event_id:
                return sequence
            break
        raise ConflictError(self._entity_id)

    async def append(self, **payload: Message) -> None:
        """Appends an event made of its one payload, whose field name is that of its type, too."""
        type_ = event_pb2.EventType.Value(f"EVENT_TYPE_{next(iter(payload)).upper()}")
        await self.append_event(event_pb2.Event(type=type_, **payload))  # type: ignore[arg-type]

    def _fill_in(self, event: event_pb2.Event) -> None:
        event.event_id = new_id()
        event.correlation_id = self._entity.correlation_id
        event.collection_id = self._entity.collection_id
        if isinstance(self._entity, job_pb2.Job):
            event.job_id, event.attempt = self._entity.job_id, self._entity.attempt
        event.timestamp.CopyFrom(from_current_time())

    async def publish_progress(
        self, progress: job_pb2.JobProgress | collection_pb2.MemberProgress
    ) -> None:
        """Publishes progress to watchers; nothing is stored."""
        subject = self._bus.names.live(self._entity_id, "progress")
        with suppress(NatsError):  # the client buffers only so much while the broker is away
            await self._bus.client.publish(subject, progress.SerializeToString())


async def open_event_log(
    bus: Bus, job: job_pb2.Job, last_sequence: int = 0, *, patience_seconds: float = 60
) -> None:
    """Writes the first event of a job's life, unless it is there."""
    writer = EventLogWriter(bus, job, last_sequence, patience_seconds=patience_seconds)
    with suppress(ConflictError):
        await writer.append(job_accepted=event_pb2.JobAccepted(job=job))
