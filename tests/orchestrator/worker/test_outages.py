"""What a dying broker or runner must not spoil: ends, files, reads."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from google.protobuf.message import Message
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from mesh.broker import Broker, running_broker
from mesh.bus import Bus, _stored
from mesh.errors import UnavailableError
from orchestrator.artifacts import Artifacts
from orchestrator.jobs import Jobs
from orchestrator.story import EventTypeId, StoryWriter
from tests.client import Client
from tests.orchestrator.conftest import Start
from tests.orchestrator.scripted import Script
from ytcaption.v1 import event_pb2, job_pb2

JOB = "01a1e222-262d-7292-9757-501b145b41af"


@pytest.mark.parametrize("dies_at", ["EXECUTION_RESULT", "JOB_FINISHED"])
async def test_a_runner_that_dies_while_it_tells_the_end_causes_no_second_result(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch, dies_at: str
) -> None:
    tell = StoryWriter.tell
    dead: list[EventTypeId] = []

    async def dying_tell(self: StoryWriter, type_: EventTypeId, **payload: Message) -> None:
        if event_pb2.EventType.Name(type_).endswith(dies_at) and not dead:
            dead.append(type_)
            raise RuntimeError("killed")
        await tell(self, type_, **payload)

    monkeypatch.setattr(StoryWriter, "tell", dying_tell)
    async with start(ack_wait_seconds=0.5) as client:
        events = await client.events((await client.create()).job_id)

    kinds = [event_pb2.EventType.Name(event.type) for event in events]
    assert dead
    assert kinds.count("EVENT_TYPE_EXECUTION_RESULT") == 1
    assert kinds.count("EVENT_TYPE_JOB_FINISHED") == 1
    assert events[-1].job_finished.job.attempt == len(script.downloads) == 1


async def test_a_watch_begun_between_the_record_and_its_story_waits_for_the_end(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell, go_on, holding = StoryWriter.tell, asyncio.Event(), asyncio.Event()

    async def slow_tell(self: StoryWriter, type_: EventTypeId, **payload: Message) -> None:
        if type_ == event_pb2.EVENT_TYPE_EXECUTION_RESULT:
            holding.set()
            await go_on.wait()
        await tell(self, type_, **payload)

    monkeypatch.setattr(StoryWriter, "tell", slow_tell)
    async with start() as client:
        job = await client.create()
        await asyncio.wait_for(holding.wait(), 10)
        assert (await client.job(job.job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
        watching = asyncio.create_task(client.events(job.job_id))
        async for _ in client.watch(job.job_id):
            break
        go_on.set()
        events = await asyncio.wait_for(watching, 10)

    assert events[-1].type == event_pb2.EVENT_TYPE_JOB_FINISHED


async def test_a_file_put_while_the_broker_is_away_is_stored_when_it_is_back(
    bus: Bus, broker: Broker, client: Client, tmp_path: Path
) -> None:
    path = tmp_path / "audio"
    path.write_bytes(os.urandom(300_000))
    os.kill(broker.pid, signal.SIGKILL)
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


def test_an_answer_that_is_no_message_is_an_error_of_the_broker() -> None:
    refusal = Msg(_client=None, subject="x", headers={"Status": "503"})  # type: ignore[arg-type]

    with pytest.raises(NatsError, match="503"):
        _stored(refusal)


async def test_a_job_that_is_in_no_queue_is_found_and_run(
    start: Start, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.rescue.EVERY_SECONDS", 0.1)
    async with start() as client:
        like = await client.create()
        await client.finished(like.job_id)
        like.job_id = JOB
        await Jobs(bus).create(job_pb2.JobRecord(job=like))

        ended = await asyncio.wait_for(_end_of(client, JOB), 20)

    assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1)


async def _end_of(client: Client, job_id: str) -> job_pb2.Job:
    while True:
        job = await client.job(job_id)
        if job.state == job_pb2.JOB_STATE_SUCCEEDED:
            return job
