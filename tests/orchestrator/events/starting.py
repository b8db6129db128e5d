"""An inbox that runs, and a stand-in for what starts collections: it can refuse, or be away."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mesh.bus import Bus
from mesh.correlation import new_id
from mesh.tasks import stop
from orchestrator.events.inbox import Inbox
from orchestrator.jobs.storage import JobStorage
from tests.support.polling import until
from ytcaption.v1 import collection_pb2, job_pb2
from ytcaption.v1.collection_service_pb2 import CreateCollectionRequest


class Recorder:
    """Accepts once for each request_id, like the real one."""

    def __init__(self) -> None:
        self.failures: list[Exception] = []
        """Raised by the next calls, one each."""
        self.asked: list[CreateCollectionRequest] = []
        self.accepted: dict[str, CreateCollectionRequest] = {}

    async def create(self, request: CreateCollectionRequest) -> collection_pb2.Collection:
        self.asked.append(request)
        if self.failures:
            raise self.failures.pop(0)
        self.accepted.setdefault(request.request_id, request)
        return collection_pb2.Collection(collection_id=new_id())

    async def take(self, kind: str, correlation_id: str, payload: dict[str, Any]) -> bool:
        """No task waits for a result."""
        return False


@asynccontextmanager
async def receiving(bus: Bus, recorder: Recorder) -> AsyncIterator[None]:
    dead_letters = JobStorage.on(bus).dead_letters
    task = asyncio.create_task(Inbox(bus, recorder.create, recorder.take, dead_letters).run())
    try:
        yield
    finally:
        await stop(task)


async def emptied(bus: Bus) -> None:
    """Returns when every event has been dealt with."""

    async def empty() -> bool:
        info = await bus.jetstream.stream_info(bus.names.inbox_stream)
        return info.state.messages == 0

    await until(empty)


async def letters_of(bus: Bus) -> list[job_pb2.DeadLetter]:
    return (await JobStorage.on(bus).dead_letters.page(0, "", "")).items


def event(fonte: Any = "https://example.test/list", **changes: Any) -> dict[str, Any]:
    """A whole event, as a client would write it."""
    usual = {
        "correlation_id": "thread-7",
        "tipo_evento": "iniciar_coleta",
        "timestamp": "2026-11-16T12:00:00Z",
        "payload": {"fonte": fonte},
    }
    return usual | changes


def as_json(found: Any) -> bytes:
    return json.dumps(found).encode()
