"""Dead letters of events: listed and purged like others; a replay sends the event again."""

import asyncio

import grpc
import pytest
from nats.aio.msg import Msg

from mesh.bus import Bus
from mesh.status import reason_of
from orchestrator.events.inbox import Inbox, resend_event
from orchestrator.jobs.storage import JobStorage
from tests.orchestrator.conftest import Start
from tests.orchestrator.events.starting import (
    Recorder,
    as_json,
    emptied,
    event,
    letters_of,
    receiving,
)
from tests.support.client import Client
from tests.support.dead_letters import dead_job, letters, purge
from tests.support.polling import until
from tests.support.scripted import Script
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2


async def refused(bus: Bus, data: bytes) -> job_pb2.DeadLetter:
    """The dead letter of an invalid event."""
    await bus.publish(bus.names.incoming("iniciar_coleta"), data)
    async with receiving(bus, Recorder()):
        await emptied(bus)
    return (await letters_of(bus))[0]


async def replay(client: Client, letter_id: str) -> pb.ReplayDeadLetterResponse:
    return await client.admin.ReplayDeadLetter(pb.ReplayDeadLetterRequest(job_id=letter_id))


async def test_dead_letters_of_events_are_listed_with_those_of_jobs_and_purged_by_id(
    client: Client, script: Script, bus: Bus
) -> None:
    job = await dead_job(client, script)
    letter = await refused(bus, b"nonsense")

    listed = await letters(client)
    assert [one.letter_id for one in listed] == [letter.letter_id, job.job_id]
    assert [one.kind for one in listed] == [job_pb2.LETTER_KIND_EVENT, job_pb2.LETTER_KIND_JOB]
    assert await letters(client, reason="EVENT_MALFORMED") == [letter]
    assert await purge(client, job_id=letter.letter_id) == 1
    assert [one.letter_id for one in await letters(client)] == [job.job_id]


async def test_an_event_replayed_twice_at_once_is_sent_once_on_its_subject(
    broker_bus: Bus, recorder: Recorder
) -> None:
    letter = await refused(broker_bus, as_json(event(tipo_evento="wrong")))

    await resend_event(broker_bus, letter)
    await resend_event(broker_bus, letter)
    info = await broker_bus.jetstream.stream_info(broker_bus.names.inbox_stream)
    message = await broker_bus.jetstream.get_last_msg(
        broker_bus.names.inbox_stream, "ytc.in.iniciar_coleta"
    )
    async with receiving(broker_bus, recorder):
        await emptied(broker_bus)
    again, first = await letters_of(broker_bus)

    assert info.state.messages == 1
    assert message.data == letter.content
    assert first == letter
    assert again.letter_id != letter.letter_id, "it failed anew, and has a letter of its own"
    assert again.content == letter.content


async def test_replay_over_grpc_sends_the_event_and_removes_the_letter(
    client: Client, bus: Bus
) -> None:
    letter = job_pb2.DeadLetter(
        kind=job_pb2.LETTER_KIND_EVENT,
        letter_id="6f0c2c1e-8f0e-5c58-9d5f-0d3a5a3f2c11",
        content=b"whatever",
        content_size_bytes=8,
        subject="ytc.in.iniciar_coleta",
    )
    await JobStorage.on(bus).dead_letters.add(letter)

    answer = await replay(client, letter.letter_id)

    assert not answer.HasField("job")
    assert letter.letter_id not in [one.letter_id for one in await letters_of(bus)]
    state = (await bus.jetstream.stream_info(bus.names.inbox_stream)).state
    assert state.last_seq == 1


async def test_an_event_stored_only_in_part_is_not_replayed(client: Client, bus: Bus) -> None:
    letter = await refused(bus, b"x" * 70_000)

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await replay(client, letter.letter_id)

    assert (len(letter.content), letter.content_size_bytes) == (65_536, 70_000)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert reason_of(caught.value) == "REQUEST_INVALID"
    assert await letters_of(bus) == [letter]


async def test_a_factory_reset_empties_inbox_and_outbox(
    start: Start, broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs(self: Inbox, message: Msg) -> None:
        await asyncio.Event().wait()

    async def messages(stream: str) -> int:
        return int((await broker_bus.jetstream.stream_info(stream)).state.messages)

    async def published() -> bool:
        return await messages(names.outbox_stream) == 4

    monkeypatch.setattr(Inbox, "_handle", hangs)
    names = broker_bus.names
    async with start() as client:
        await broker_bus.publish(names.incoming("iniciar_coleta"), as_json(event()))
        await client.finished((await client.create()).job_id)
        await until(published)
        assert await messages(names.inbox_stream) == 1
        await client.admin.FactoryReset(pb.FactoryResetRequest(confirmation="ERASE EVERYTHING"))

        assert await messages(names.inbox_stream) == 0
        assert await messages(names.outbox_stream) == 0


async def test_replay_of_an_unknown_kind_is_refused_and_its_letter_stays(
    client: Client, bus: Bus
) -> None:
    letter = job_pb2.DeadLetter(kind=9, letter_id="6f0c2c1e-8f0e-5c58-9d5f-0d3a5a3f2c11")  # type: ignore[arg-type]
    await JobStorage.on(bus).dead_letters.add(letter)

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await replay(client, letter.letter_id)

    assert reason_of(caught.value) == "NOT_IMPLEMENTED"
    assert len(await letters_of(bus)) == 1
