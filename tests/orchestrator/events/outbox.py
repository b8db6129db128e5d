"""An outbox that runs, and what it published."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from google.protobuf.timestamp import from_current_time

from mesh.bus import Bus
from mesh.correlation import new_id
from mesh.tasks import stop
from orchestrator.collections.projection import projection_at
from orchestrator.events.outbox import Outbox
from orchestrator.jobs.storage import JobStorage
from ytcaption.v1 import event_pb2, job_pb2

JOB = "01997b3e-6e0a-7c44-9d5f-0d3a5a3f2c11"
COLLECTION = "01997b3e-0000-7c44-9d5f-0d3a5a3f2c11"


def outbox_on(bus: Bus) -> Outbox:
    """An outbox that reads the members of collections from their event logs."""
    return Outbox(bus, partial(projection_at, JobStorage.on(bus).event_logs))


@asynccontextmanager
async def publishing(bus: Bus) -> AsyncIterator[None]:
    outbox = outbox_on(bus)
    await outbox.create()
    task = asyncio.create_task(outbox.run())
    try:
        yield
    finally:
        await stop(task)


def stored_event(kind: str, payload: Any, **fields: Any) -> event_pb2.Event:
    """An event as a runner writes it."""
    usual = {
        "event_id": new_id(),
        "correlation_id": "thread-7",
        "type": event_pb2.EventType.Value(f"EVENT_TYPE_{kind.upper()}"),
        "timestamp": from_current_time(),
        "job_id": JOB,
        "collection_id": COLLECTION,
        "attempt": 1,
        kind: payload,
    }
    return event_pb2.Event(**(usual | fields))


def executed(number: int = 0, job_id: str = JOB) -> event_pb2.Event:
    """A transcription result; the number of segments identifies it."""
    result = event_pb2.ExecutionResult(
        state=job_pb2.STAGE_STATE_COMPLETED, segment_count=number, source=source()
    )
    return stored_event("execution_result", result, job_id=job_id)


def source() -> job_pb2.Source:
    return job_pb2.Source(url="https://example.test/a")


async def store(bus: Bus, event: event_pb2.Event) -> None:
    kind = event_pb2.EventType.Name(event.type).removeprefix("EVENT_TYPE_").lower()
    subject = bus.names.event(event.job_id or event.collection_id, kind)
    await bus.publish(subject, event.SerializeToString())


async def published(bus: Bus) -> list[dict[str, Any]]:
    """Everything in the outbox."""
    stored = bus.read(bus.names.outbox_stream, bus.names.outgoing("*"))
    return [json.loads(one.data) async for one in stored]
