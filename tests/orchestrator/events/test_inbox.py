"""Every event that came starts one collection or leaves one letter, whatever happens meanwhile."""

from typing import Any

import pytest
from nats.aio.msg import Msg

from mesh.bus import Bus
from mesh.errors import InvalidRequestError, LimitExceededError, MeshError, UnavailableError
from mesh.reasons import Reason
from orchestrator.jobs.storage import JobStorage
from orchestrator.worker.retry import Backoff
from tests.orchestrator.events.starting import (
    Recorder,
    as_json,
    emptied,
    event,
    letters_of,
    receiving,
)
from tests.support.dead_letters import dies_once
from tests.support.polling import until
from ytcaption.v1 import event_pb2, job_pb2


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.events.inbox.BACKOFF", Backoff(first=0.01, limit=60))


async def send(bus: Bus, data: bytes, form: Any = "iniciar_coleta", **headers: str) -> None:
    await bus.publish(bus.names.incoming(form), data, headers)


async def test_both_forms_start_collections(broker_bus: Bus, recorder: Recorder) -> None:
    start = event_pb2.StartCollection(addresses=["https://a.test"])
    message = event_pb2.Event(
        event_id="e1", type=event_pb2.EVENT_TYPE_START_COLLECTION, start_collection=start
    )
    async with receiving(broker_bus, recorder):
        await send(broker_bus, as_json(event("https://l.test")))
        await send(broker_bus, message.SerializeToString(), "start_collection")
        await emptied(broker_bus)

    first, second = recorder.accepted.values()
    assert (list(first.sources), list(second.addresses)) == (["https://l.test"], ["https://a.test"])
    assert second.request_id == "e1"
    assert await letters_of(broker_bus) == []


async def test_an_event_delivered_again_starts_nothing_new_and_two_on_purpose_start_two(
    broker_bus: Bus, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(broker_bus, as_json(event()))
    # Fails after the collection was accepted, before the broker hears of it.
    deaths = dies_once(monkeypatch, Msg, "ack_sync")
    async with receiving(broker_bus, recorder):
        await until(lambda: bool(deaths))

    async with receiving(broker_bus, recorder):
        await emptied(broker_bus)
        assert (len(recorder.asked), len(recorder.accepted)) == (2, 1)
        await send(broker_bus, as_json(event()))
        await send(broker_bus, as_json(event()))
        await emptied(broker_bus)

    assert len(recorder.accepted) == 3


@pytest.mark.parametrize(
    "failure",
    [
        UnavailableError("away", reason=Reason.STORAGE_UNAVAILABLE),
        LimitExceededError("full", reason=Reason.STORAGE_FULL),
        RuntimeError("a fault of ours"),
    ],
)
async def test_a_passing_error_is_retried_without_blocking_other_events(
    broker_bus: Bus, recorder: Recorder, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = recorder.create

    async def hindered(request: Any) -> Any:
        if request.request_id == "1" and len(recorder.accepted) < 2:
            recorder.failures.append(failure)
        return await real(request)

    monkeypatch.setattr(recorder, "create", hindered)
    monkeypatch.setattr("orchestrator.events.inbox.MAX_FAULTS", 1000)
    for number in ("1", "2", "3"):
        await send(broker_bus, as_json(event(evento_id=number)))
    async with receiving(broker_bus, recorder):
        await emptied(broker_bus)

    assert list(recorder.accepted) == ["2", "3", "1"]
    assert await letters_of(broker_bus) == []


async def test_an_event_that_keeps_making_our_code_fail_becomes_a_dead_letter(
    broker_bus: Bus, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.events.inbox.MAX_FAULTS", 3)
    recorder.failures = [RuntimeError("a fault of ours") for _ in range(9)]
    await send(broker_bus, as_json(event()))
    async with receiving(broker_bus, recorder):
        await emptied(broker_bus)

    [letter] = await letters_of(broker_bus)
    assert (letter.failure.reason, letter.attempts, len(recorder.asked)) == ("INTERNAL", 3, 3)


async def test_a_malformed_event_leaves_one_complete_dead_letter(
    broker_bus: Bus, recorder: Recorder
) -> None:
    wrong = as_json(event(payload={"fonte": ["x"], "parametros": {"lingua": "pt"}}))
    async with receiving(broker_bus, recorder):
        await send(broker_bus, wrong)
        await emptied(broker_bus)

    [letter] = await letters_of(broker_bus)
    assert recorder.asked == []
    assert (letter.kind, letter.job_id) == (job_pb2.LETTER_KIND_EVENT, "")
    assert letter.failure.reason == "EVENT_MALFORMED"
    assert letter.failure.message == "payload.parametros.lingua: there is no such key"
    assert (letter.correlation_id, letter.content) == ("thread-7", wrong)
    assert (letter.subject, letter.attempts) == ("ytc.in.iniciar_coleta", 1)
    assert letter.first_attempt_time.seconds > 0
    assert await JobStorage.on(broker_bus).dead_letters.of(letter.letter_id) == letter


@pytest.mark.parametrize(
    "refusal",
    [
        InvalidRequestError("no such language", reason=Reason.LANGUAGE_UNKNOWN),
        InvalidRequestError("not an address", reason=Reason.UNSUPPORTED_URL),
    ],
)
async def test_a_refused_request_leaves_a_dead_letter_with_the_reason_of_the_refusal(
    broker_bus: Bus, recorder: Recorder, refusal: MeshError
) -> None:
    recorder.failures = [refusal]
    async with receiving(broker_bus, recorder):
        await send(broker_bus, as_json(event()))
        await emptied(broker_bus)

    [letter] = await letters_of(broker_bus)
    assert (letter.failure.reason, letter.failure.message) == (refusal.reason, str(refusal))
    assert not letter.failure.retryable


async def test_a_failure_between_dead_letter_and_acknowledgement_leaves_one_letter(
    broker_bus: Bus, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(broker_bus, b"nonsense")
    deaths = dies_once(monkeypatch, Msg, "ack_sync")
    async with receiving(broker_bus, recorder):
        await until(lambda: bool(deaths))

    async with receiving(broker_bus, recorder):
        await emptied(broker_bus)

    assert len(await letters_of(broker_bus)) == 1


async def test_an_inbox_whose_consumer_was_deleted_goes_on(
    broker_bus: Bus, recorder: Recorder
) -> None:
    async with receiving(broker_bus, recorder):
        await send(broker_bus, as_json(event(evento_id="1")))
        await emptied(broker_bus)
        await broker_bus.jetstream.delete_consumer(broker_bus.names.inbox_stream, "inbox")
        await send(broker_bus, as_json(event(evento_id="2")))
        await emptied(broker_bus)

    assert set(recorder.accepted) == {"1", "2"}
