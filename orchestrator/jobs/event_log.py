"""The durable story of a job or a collection: one writer at a time, read by anyone."""

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
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2

Hero: TypeAlias = job_pb2.Job | collection_pb2.Collection
"""Whom a story is about."""
EventTypeId: TypeAlias = "event_pb2.EventType.ValueType"

SEQUENCE = "Ytc-Sequence"
PREVIOUS = "Ytc-Previous"


class StoryReader:
    """Reads stories."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def events(
        self, hero_id: str, after: int = 0, *, patience_seconds: float = 0
    ) -> AsyncIterator[tuple[int, event_pb2.Event]]:
        """Stored events with their sequence numbers, oldest first."""
        names = self._bus.names
        stored = self._bus.read(
            names.events_stream,
            names.event(hero_id, "*"),
            after,
            patience_seconds=patience_seconds,
        )
        async for message in stored:
            yield message.sequence, event_pb2.Event.FromString(message.data)


class StoryWriter:
    """Appends to one story; refused by the broker as soon as somebody else did."""

    def __init__(
        self, bus: Bus, hero: Hero, last_sequence: int, *, patience_seconds: float = 60
    ) -> None:
        self._bus = bus
        self._hero = hero
        self._hero_id = hero.job_id if isinstance(hero, job_pb2.Job) else hero.collection_id
        self._last_sequence = last_sequence
        self._patience = patience_seconds
        self._turn = asyncio.Lock()

    @property
    def last_sequence(self) -> int:
        """Of what was stored last."""
        return self._last_sequence

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
            live = self._bus.names.live(self._hero_id, "event")
            # It is stored: watchers find it there if they do not hear of it now.
            with suppress(NatsError):
                await self._bus.client.publish(live, event.SerializeToString(), headers=headers)

    async def _store(self, event: event_pb2.Event) -> int:
        kind = event_pb2.EventType.Name(event.type).removeprefix("EVENT_TYPE_").lower()
        names, hero_id = self._bus.names, self._hero_id
        fence = {
            "Nats-Expected-Last-Subject-Sequence": str(self._last_sequence),
            "Nats-Expected-Last-Subject-Sequence-Subject": names.event(hero_id, "*"),
        }
        try:
            return await self._bus.publish(
                names.event(hero_id, kind), event.SerializeToString(), fence
            )
        except APIError as error:
            if error.err_code not in WRONG_LAST_SEQUENCE:
                raise
            return await self._find_own(event)

    async def _find_own(self, event: event_pb2.Event) -> int:
        """A publish that timed out may have been stored all the same."""
        async for sequence, stored in StoryReader(self._bus).events(
            self._hero_id, self._last_sequence
        ):
            if stored.event_id == event.event_id:
                return sequence
            break
        raise ConflictError(self._hero_id)

    async def tell(self, type_: EventTypeId, **payload: Message) -> None:
        """Appends an event made of its type and its payload."""
        await self.append(event_pb2.Event(type=type_, **payload))  # type: ignore[arg-type]

    def _fill_in(self, event: event_pb2.Event) -> None:
        event.event_id = new_id()
        event.correlation_id = self._hero.correlation_id
        event.collection_id = self._hero.collection_id
        if isinstance(self._hero, job_pb2.Job):
            event.job_id, event.attempt = self._hero.job_id, self._hero.attempt
        event.timestamp.CopyFrom(from_current_time())

    async def show_progress(
        self, progress: job_pb2.JobProgress | collection_pb2.MemberProgress
    ) -> None:
        """Tells watchers the live figures; nothing is stored."""
        subject = self._bus.names.live(self._hero_id, "progress")
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
