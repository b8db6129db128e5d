"""What a dying broker or runner must not spoil: ends, files, reads."""

import asyncio
import os
from pathlib import Path

import pytest
from google.protobuf.message import Message
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from mesh.bus import Bus, _stored
from mesh.errors import UnavailableError
from orchestrator.jobs.artifacts import Artifacts
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.store import JobStore
from tests.orchestrator.conftest import Start
from tests.support.broker import Broker, running_broker
from tests.support.client import Client
from tests.support.processes import kill
from tests.support.scripted import Script
from ytcaption.v1 import event_pb2, job_pb2

JOB = "01a1e222-262d-7292-9757-501b145b41af"


@pytest.mark.parametrize("dies_at", ["execution_result", "job_finished"])
async def test_a_runner_that_dies_while_it_logs_the_end_causes_no_second_result(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch, dies_at: str
) -> None:
    append = EventLogWriter.append
    dead: list[str] = []

    async def dying_append(self: EventLogWriter, **payload: Message) -> None:
        if dies_at in payload and not dead:
            dead.append(dies_at)
            raise RuntimeError("killed")
        await append(self, **payload)

    monkeypatch.setattr(EventLogWriter, "append", dying_append)
    async with start() as client:
        events = await client.events((await client.create()).job_id)

    kinds = [event_pb2.EventType.Name(event.type) for event in events]
    assert dead
    assert kinds.count("EVENT_TYPE_EXECUTION_RESULT") == 1
    assert kinds.count("EVENT_TYPE_JOB_FINISHED") == 1
    assert events[-1].job_finished.job.attempt == len(script.downloads) == 1


async def test_a_watch_begun_between_the_record_and_its_event_log_waits_for_the_end(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, go_on, holding = EventLogWriter.append, asyncio.Event(), asyncio.Event()

    async def slow_append(self: EventLogWriter, **payload: Message) -> None:
        if "execution_result" in payload:
            holding.set()
            await go_on.wait()
        await append(self, **payload)

    monkeypatch.setattr(EventLogWriter, "append", slow_append)
    async with start() as client:
        job = await client.create()
        await asyncio.wait_for(holding.wait(), 60)
        assert (await client.job(job.job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
        watching = asyncio.create_task(client.events(job.job_id))
        async for _ in client.watch(job.job_id):
            break
        go_on.set()
        events = await asyncio.wait_for(watching, 60)

    assert events[-1].type == event_pb2.EVENT_TYPE_JOB_FINISHED


async def test_a_file_put_while_the_broker_is_away_is_stored_when_it_is_back(
    outage_bus: Bus, broker: Broker, tmp_path: Path
) -> None:
    bus = outage_bus
    path = tmp_path / "audio"
    path.write_bytes(os.urandom(300_000))
    await kill(broker.pid)
    putting = asyncio.create_task(Artifacts(bus, patience_seconds=60).put_file(JOB, "audio", path))
    async with running_broker(tmp_path / "nats", int(broker.url.rpartition(":")[2])):
        assert await asyncio.wait_for(putting, 60) == 300_000
        read = [piece async for piece in Artifacts(bus, patience_seconds=60).read(JOB, "audio")]

    assert b"".join(read) == path.read_bytes()


async def test_a_file_that_lost_its_middle_is_refused_rather_than_cut(
    bus: Bus, tmp_path: Path
) -> None:
    path = tmp_path / "audio"
    path.write_bytes(os.urandom(300_000))
    await Artifacts(bus, patience_seconds=60).put_file(JOB, "audio", path)
    stream = f"OBJ_{bus.names.artifacts_bucket}"
    async for chunk in bus.read(stream, f"$O.{bus.names.artifacts_bucket}.C.*"):
        await bus.jetstream.delete_msg(stream, chunk.sequence)
        break

    with pytest.raises(UnavailableError, match="ends too soon"):
        async for _ in Artifacts(bus, patience_seconds=60).read(JOB, "audio"):
            pass


def test_an_answer_with_an_error_status_is_a_broker_error() -> None:
    refusal = Msg(_client=None, subject="x", headers={"Status": "503"})  # type: ignore[arg-type]

    with pytest.raises(NatsError, match="503"):
        _stored(refusal)


async def test_a_job_that_is_in_no_queue_is_found_and_run(
    start: Start, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.maintenance.reconciler.EVERY_SECONDS", 0.1)
    async with start() as client:
        like = await client.create()
        await client.finished(like.job_id)
        like.job_id = JOB
        await JobStore(bus).create(job_pb2.JobRecord(job=like))

        ended = await asyncio.wait_for(_end_of(client, JOB), 60)

    assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1)


async def _end_of(client: Client, job_id: str) -> job_pb2.Job:
    while True:
        job = await client.job(job_id)
        if job.state == job_pb2.JOB_STATE_SUCCEEDED:
            return job
