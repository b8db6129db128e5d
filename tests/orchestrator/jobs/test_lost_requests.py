"""A submission whose request to the store is lost while others are answered."""

import asyncio
from typing import Any

import pytest
from nats.js.errors import APIError

from mesh.answers import AGAIN_STEPS, STEPS, Answers, current_patience, prompt
from mesh.bus import IN_FLIGHT_SECONDS, MAX_IN_FLIGHT, WRONG_LAST_SEQUENCE, Bus
from mesh.correlation import new_id
from mesh.errors import UnavailableError
from orchestrator.jobs.store import ConflictError, JobStore
from tests.support.client import URL, Client
from tests.support.polling import until
from tests.support.steps import Steps
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import job_pb2

SECONDS = 1.23


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch, SECONDS)


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_a_record_is_stored_once(
    broker_bus: Bus, steps: Steps, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    publish, sent = broker_bus.jetstream.publish, 0

    async def losing(*given: Any, **named: Any) -> Any:
        nonlocal sent
        sent += 1
        answer = await publish(*given, **named) if sent > 1 or lost == "answer" else None
        if sent == 1:
            # Sent later, and answered.
            await broker_bus.put_key("filler.one", b"", 0)
            await asyncio.Event().wait()
        return answer

    monkeypatch.setattr(broker_bus.jetstream, "publish", losing)
    record = job_pb2.JobRecord(job=job_pb2.Job(job_id=new_id()))
    with prompt(SECONDS):
        creating = asyncio.create_task(JobStore(broker_bus).create(record))
    await until(lambda: broker_bus._answers.counts.total() > 0)
    await steps.pass_(STEPS - AGAIN_STEPS)

    created = await creating
    stored = await JobStore(broker_bus).get(record.job.job_id)
    assert sent == 3
    assert (created.revision, created.record) == (stored.revision, stored.record)


async def test_a_write_that_never_settles_is_not_waited_for_as_long_as_usual(
    broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    async def in_flight(*_: Any, **__: Any) -> int:
        nonlocal tries
        tries += 1
        raise APIError(code=400, err_code=WRONG_LAST_SEQUENCE[0])

    monkeypatch.setattr(broker_bus, "publish", in_flight)

    with pytest.raises(UnavailableError), prompt(IN_FLIGHT_SECONDS / 2):
        await broker_bus.put_key("filler.one", b"", 0)
    assert tries < MAX_IN_FLIGHT


async def test_the_record_of_another_writer_is_a_conflict_all_the_same(broker_bus: Bus) -> None:
    record = job_pb2.JobRecord(job=job_pb2.Job(job_id=new_id()))
    await JobStore(broker_bus).create(record)
    record.job.attempt = 1

    with pytest.raises(ConflictError), prompt(60):
        await JobStore(broker_bus).create(record)


@pytest.mark.parametrize("what", ["job", "collection"])
async def test_all_requests_of_a_submission_share_one_patience(
    client: Client, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Else the times of slow ones add up, and a refusal takes longer than it may."""
    to, seen = Answers.to, []

    async def noted(self: Answers, kind: str, *given: Any, **named: Any) -> Any:
        if (patience := current_patience()) is not None:
            seen.append((kind, patience))
        return await to(self, kind, *given, **named)

    monkeypatch.setattr(Answers, "to", noted)
    if what == "job":
        await client.create(request_id="named")
    else:
        request = collection_pb.CreateCollectionRequest(sources=[URL], request_id="named")
        await client.collections.CreateCollection(request)
    kinds = [kind for kind, patience in seen if patience is seen[0][1]]

    assert len(kinds) == 4  # the reservation, the work item, the record and the event log
