"""The example messages of the original contract work as they stand in its documents.

YTC_SEEDS names a folder with the documents themselves; without it only our copy of the examples
is sent.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.conftest import DATA
from tests.orchestrator.events.schema import FOLDER, validator
from tests.support.broker import Broker
from tests.support.client import Client
from tests.support.contract import KINDS, messages_in
from tests.support.dead_letters import letters
from tests.support.polling import until
from tests.support.scripted import Script

COPY = DATA / "contract" / "messages.md"
CHANNEL = "https://www.youtube.com/@canal_exemplo"
FOUND = ["http://example.test/1.mp3", "http://example.test/2.mp3"]
ENVELOPE = jsonschema_rs.Draft202012Validator(
    json.loads((FOLDER / "mensagem_schema.json").read_text()), validate_formats=True
)


def documents() -> list[Path]:
    """Our copy, and the documents themselves where they are."""
    folder = os.environ.get("YTC_SEEDS")
    found = [COPY]
    if folder:
        seeds = [path for path in Path(folder).iterdir() if path.is_file()]
        assert messages_in(*sorted(seeds)) == messages_in(COPY), "our copy differs"
        found += sorted(path for path in seeds if messages_in(path))
    return found


@pytest.fixture(params=documents(), ids=lambda path: path.stem)
def examples(request: Any) -> list[dict[str, Any]]:
    found = messages_in(request.param)
    assert found
    return found


async def exchanged(
    broker: Broker,
    messages: list[dict[str, Any]],
    enough: Callable[[list[dict[str, Any]]], bool],
) -> list[dict[str, Any]]:
    """Sends each message as a plain client would, and returns what was published until enough."""
    heard: list[dict[str, Any]] = []

    async def receive(message: Any) -> None:
        heard.append(json.loads(message.data))

    plain = await broker.connect("bridge")
    try:
        await plain.subscribe("ytc.out.>", cb=receive)
        await plain.flush()
        for message in messages:
            body = json.dumps(message).encode()
            await plain.jetstream().publish(f"ytc.in.{message['tipo_evento']}", body)
        await until(lambda: enough(heard))
    finally:
        await plain.close()
    return heard


async def test_every_example_message_of_the_documents_is_taken_and_none_is_a_dead_letter(
    client: Client, script: Script, broker: Broker, examples: list[dict[str, Any]]
) -> None:
    script.listings = defaultdict(lambda: FOUND)
    starting = [one for one in examples if _names_a_channel(one)]
    refused = [
        one
        for one in examples
        if one["tipo_evento"].startswith("iniciar") and not _names_a_channel(one)
    ]

    def complete(heard: list[dict[str, Any]]) -> bool:
        return (len(_answers(heard)), len(_aggregates(heard))) == (len(refused), len(starting))

    heard = await exchanged(broker, examples, complete)

    assert await letters(client) == []
    for one in (*examples, *heard):
        ENVELOPE.validate(one)
    assert sorted((asked.source_url, asked.period) for asked in script.resolves) == sorted(
        (CHANNEL, one["payload"]["parametros"].get("periodo", "")) for one in starting
    )
    assert all(one["payload"]["completo"] for one in _aggregates(heard))
    answers = _answers(heard)
    assert sorted((one["correlation_id"], one["tipo_evento"]) for one in answers) == sorted(
        (one["correlation_id"], one["tipo_evento"].replace("iniciar", "resultado"))
        for one in refused
    )
    for one in answers:
        assert one["payload"]["status"] == "erro"
        assert one["payload"]["erros"] == [one["payload"]["falha"]]


def _answers(heard: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that say that a request starts nothing."""
    return [one for one in heard if "falha" in one["payload"] and not one["payload"]["attempt"]]


def _aggregates(heard: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in heard if one["tipo_evento"] == "resultado_agregado"]


def _names_a_channel(message: dict[str, Any]) -> bool:
    return "canal" in message["payload"].get("parametros", {})


def test_the_copy_has_examples_of_requests_and_results_of_every_kind() -> None:
    assert {one["tipo_evento"] for one in messages_in(COPY)} == set(KINDS)


async def test_a_channel_and_a_month_become_one_collection_with_results_and_an_aggregate(
    client: Client, script: Script, broker: Broker
) -> None:
    script.listings = {CHANNEL: FOUND}
    [example] = [one for one in messages_in(COPY) if "periodo" in str(one)]

    heard = await exchanged(broker, [example], lambda heard: bool(_aggregates(heard)))

    assert {one["correlation_id"] for one in heard} == {example["correlation_id"]}
    for one in heard:
        validator(f"out.{one['tipo_evento']}").validate(one)
    fetched = [one["payload"] for one in heard if one["tipo_evento"] == "resultado_coleta"]
    assert sorted(one["dados"]["endereco"] for one in fetched) == FOUND
    assert [(one["status"], one["erros"]) for one in fetched] == [("concluida", [])] * 2
    done = [one["payload"] for one in heard if one["tipo_evento"] == "resultado_execucao"]
    assert [(one["resultado"], one["arquivo"]) for one in done] == [("ok", "transcription.srt")] * 2
    assert {one["arquivo_endereco"] for one in done} == {
        f"/jobs/{one['job_id']}/captions.srt" for one in done
    }
    whole = heard[-1]
    assert whole["tipo_evento"] == "resultado_agregado"
    assert whole["payload"]["completo"]
    assert whole["payload"]["definitivo"]
    assert whole["payload"]["contagens"] == {
        "pendente": 0,
        "em_execucao": 0,
        "concluida": 2,
        "erro": 0,
        "timeout": 0,
    }
    assert [
        (one["numero"], one["fonte"], one["status"], one["resultado"])
        for one in whole["payload"]["subtarefas"]
    ] == [(number, address, "concluida", "ok") for number, address in enumerate(FOUND, 1)]


async def test_a_request_that_is_refused_is_answered_and_a_dead_letter(
    client: Client, broker: Broker
) -> None:
    wrong = {
        "correlation_id": "mine",
        "tipo_evento": "iniciar_coleta",
        "timestamp": "2025-10-14T12:00:00Z",
        "payload": {"fonte": "youtube", "parametros": {"canal": "a", "periodo": "outubro"}},
    }

    [answer] = await exchanged(broker, [wrong], bool)

    assert (answer["correlation_id"], answer["tipo_evento"]) == ("mine", "resultado_coleta")
    assert [one["motivo"] for one in answer["payload"]["erros"]] == ["REQUEST_INVALID"]
    assert "2025-10" in answer["payload"]["erros"][0]["mensagem"]
    validator("out.resultado_coleta").validate(answer)
    [letter] = await letters(client)
    assert letter.failure.reason == "REQUEST_INVALID"
