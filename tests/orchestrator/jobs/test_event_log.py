"""The event log has one writer at a time, even if its caller is cancelled in the middle."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from mesh.bus import Bus
from mesh.correlation import new_id
from orchestrator.jobs.event_log import EventLogReader, EventLogWriter
from tests.support.polling import until
from tests.support.unretrieved import Unretrieved
from ytcaption.v1 import event_pb2, job_pb2


@pytest.fixture
def job() -> job_pb2.Job:
    return job_pb2.Job(job_id=new_id())


@asynccontextmanager
async def held(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[asyncio.Event]:
    """Inside this block no event reaches the broker; the event is set once one is on its way."""
    publish, publishing, go_on = Bus.publish, asyncio.Event(), asyncio.Event()

    async def held_publish(self: Bus, *arguments: Any, **named: Any) -> int:
        publishing.set()
        await go_on.wait()
        return await publish(self, *arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Bus, "publish", held_publish)
        yield publishing
    go_on.set()


async def append_and_cancel(event_log: EventLogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends an event, and cancels the caller before the broker has it."""
    async with held(monkeypatch) as publishing:
        caller = asyncio.create_task(event_log.append(media_found=event_pb2.MediaFound()))
        await publishing.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller


async def test_an_event_whose_caller_was_cancelled_is_stored_and_the_next_follows_it(
    broker_bus: Bus, job: job_pb2.Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    event_log = EventLogWriter(broker_bus, job, 0)

    await append_and_cancel(event_log, monkeypatch)
    await event_log.append(job_finished=event_pb2.JobFinished(job=job))

    stored = [event.type async for _, event in EventLogReader(broker_bus).events(job.job_id)]
    assert stored == [event_pb2.EVENT_TYPE_MEDIA_FOUND, event_pb2.EVENT_TYPE_JOB_FINISHED]


async def test_a_refusal_after_the_caller_was_cancelled_is_logged(
    broker_bus: Bus, job: job_pb2.Job, monkeypatch: pytest.MonkeyPatch, unretrieved: Unretrieved
) -> None:
    other = EventLogWriter(broker_bus, job, 0)
    await other.append(job_accepted=event_pb2.JobAccepted(job=job))

    with capture_logs() as lines:
        await append_and_cancel(EventLogWriter(broker_bus, job, 0), monkeypatch)
        await until(lambda: bool(lines))

    assert [(line["work"], line["error"]) for line in lines] == [
        ("EventLogWriter._append", f"ConflictError('{job.job_id}')")
    ]
    assert unretrieved() == []
