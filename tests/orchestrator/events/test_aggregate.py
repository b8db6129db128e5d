"""The aggregate of a collection: every subtask with its state, its result or its error."""

import json
from typing import Any

import pytest
from google.protobuf.duration import from_seconds

from mesh.bus import Bus
from orchestrator.events.rendering import aggregates
from tests.orchestrator.events.outbox import (
    COLLECTION,
    JOB,
    published,
    publishing,
    store,
    stored_event,
)
from tests.orchestrator.events.schema import validator
from tests.support.polling import until
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2

STATES = ("pending", "running", "completed", "failed", "timed_out", "cancelled")
STATUSES = ("pendente", "em_execucao", "concluida", "erro", "timeout", "erro")


def member(number: int, state: str, **fields: Any) -> collection_pb2.Member:
    value = collection_pb2.MemberState.Value(f"MEMBER_STATE_{state.upper()}")
    return collection_pb2.Member(
        number=number,
        job_id=JOB,
        source_url=f"https://example.test/{number}",
        state=value,
        **fields,
    )


def gathered(kind: str = "gathered", end: int = 100, **fields: Any) -> event_pb2.Event:
    collection = collection_pb2.Collection(
        collection_id=COLLECTION, state=collection_pb2.COLLECTION_STATE_PARTIAL, **fields
    )
    collection.end_time.FromSeconds(end)
    return stored_event(
        "collection_changed",
        event_pb2.CollectionChanged(collection=collection),
        job_id="",
        attempt=0,
        type=event_pb2.EventType.Value(f"EVENT_TYPE_COLLECTION_{kind.upper()}"),
    )


def payloads(event: event_pb2.Event, members: list[collection_pb2.Member]) -> list[dict[str, Any]]:
    found = [
        json.loads(one.model_dump_json(exclude_none=True)) for one in aggregates(event, members)
    ]
    for one in found:
        validator("out.resultado_agregado").validate(one)
    return [one["payload"] for one in found]


def test_every_subtask_has_its_state_and_its_result_or_error() -> None:
    members = [member(number, state) for number, state in enumerate(STATES, 1)]
    members[2].language, members[2].title = "pt", "A talk"
    members[2].duration.CopyFrom(from_seconds(61))
    members[3].failure.CopyFrom(job_pb2.Failure(reason="VIDEO_PRIVATE", message="private"))

    [found] = payloads(gathered(title="Talks"), members)

    assert [one["status"] for one in found["subtarefas"]] == list(STATUSES)
    assert [one["estado"] for one in found["subtarefas"]] == list(STATES)
    assert found["subtarefas"][2] == {
        "numero": 3,
        "job_id": JOB,
        "fonte": "https://example.test/3",
        "titulo": "A talk",
        "status": "concluida",
        "estado": "completed",
        "resultado": "ok",
        "arquivo": "transcription.srt",
        "arquivo_endereco": f"/jobs/{JOB}/captions.srt",
        "idioma": "pt",
        "duracao": 61.0,
        "atrasada": False,
        "erros": [],
    }
    assert [one["motivo"] for one in found["subtarefas"][3]["erros"]] == ["VIDEO_PRIVATE"]
    assert [one["numero"] for one in found["subtarefas"] if "resultado" in one] == [3]
    assert (found["titulo"], found["estado"], found["completo"]) == ("Talks", "partial", False)
    assert (found["total"], found["contagens"]["erro"], found["contagens"]["timeout"]) == (6, 2, 1)


def test_a_source_that_could_not_be_listed_is_an_error_of_the_aggregate() -> None:
    failure = job_pb2.Failure(reason="SITE_ERROR", message="503")
    listing = collection_pb2.Listing(source="https://l.test", complete=True, failure=failure)

    [found] = payloads(gathered(listings=[listing]), [])

    assert [one["motivo"] for one in found["erros"]] == ["SITE_ERROR"]
    assert found["subtarefas"] == []


@pytest.mark.parametrize(("ends", "final"), [(None, False), (90, True)])
def test_an_aggregate_is_final_unless_a_job_goes_on_after_the_deadline(
    ends: int | None, final: bool
) -> None:
    one = member(1, "timed_out")
    if ends:
        one.end_time.FromSeconds(ends)

    [found] = payloads(gathered(), [one])

    assert found["definitivo"] is final


def test_a_second_aggregate_follows_only_if_results_came_late() -> None:
    in_time, late = member(1, "completed"), member(2, "completed", late=True)
    in_time.end_time.FromSeconds(90)
    late.end_time.FromSeconds(110)

    [found] = payloads(gathered("settled"), [in_time, late])

    assert found["definitivo"]
    assert [one["atrasada"] for one in found["subtarefas"]] == [False, True]
    assert payloads(gathered("settled"), [in_time]) == []


def test_a_large_aggregate_comes_in_parts_of_which_each_has_its_place_and_all_counts() -> None:
    members = [member(number, "completed", title="é" * 200) for number in range(1, 2001)]
    event = gathered()

    found = payloads(event, members)

    assert len(found) > 1
    assert [one["parte"] for one in found] == list(range(1, len(found) + 1))
    assert {one["partes"] for one in found} == {len(found)}
    assert [sub["numero"] for one in found for sub in one["subtarefas"]] == list(range(1, 2001))
    assert {one["contagens"]["concluida"] for one in found} == {2000}
    ids = [one.evento_id for one in aggregates(event, members)]
    assert len(set(ids)) == len(ids)
    assert ids[0] == event.event_id


async def test_the_aggregate_has_the_members_as_they_stood_at_the_event(broker_bus: Bus) -> None:
    def changed(one: collection_pb2.Member) -> event_pb2.Event:
        return stored_event(
            "member_changed", event_pb2.MemberChanged(member=one), job_id="", attempt=0
        )

    start = event_pb2.StartCollection(addresses=["https://example.test/1"])
    async with publishing(broker_bus):
        await store(broker_bus, stored_event("start_collection", start, job_id="", attempt=0))
        await store(broker_bus, changed(member(1, "timed_out")))
        event = gathered()
        await store(broker_bus, event)
        late = member(1, "completed", late=True)
        late.end_time.FromSeconds(200)
        await store(broker_bus, changed(late))
        await store(broker_bus, gathered("settled"))

        async def both() -> bool:
            return len(await published(broker_bus)) == 3

        await until(both)
        started, first, second = await published(broker_bus)

    assert started["tipo_evento"] == "iniciar_coleta"
    assert [one["payload"]["definitivo"] for one in (first, second)] == [False, True]
    assert [one["payload"]["subtarefas"][0]["status"] for one in (first, second)] == [
        "timeout",
        "concluida",
    ]
