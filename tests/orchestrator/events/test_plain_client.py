"""A client that knows NATS and JSON, and nothing of ours, starts a collection and hears it."""

import asyncio
import json
import os
import sys
from collections import Counter
from typing import Any

from mesh.errors import SourceRefusedError
from mesh.reasons import Reason
from tests.docs.pages import blocks, page
from tests.orchestrator.events.schema import validator
from tests.support.broker import Broker
from tests.support.client import Client
from tests.support.dead_letters import letters
from tests.support.polling import until
from tests.support.scripted import Script

KINDS = ("iniciar_coleta", "resultado_coleta", "iniciar_execucao", "resultado_execucao")
LIST = "http://example.test/playlist"
FOUND = ["http://example.test/1.mp3", "http://example.test/2.mp3"]


async def _printed(program: str, broker: Broker, role: str, **more: str) -> list[dict[str, Any]]:
    variables = {"NATS_URL": broker.url, "NATS_KEY": broker.key(role), **more}
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program),
        env={**os.environ, **variables},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        printed, _ = await asyncio.wait_for(running.communicate(), 60)
    finally:
        if running.returncode is None:
            running.kill()
    assert running.returncode == 0
    return [json.loads(line) for line in printed.splitlines()]


async def test_the_documented_clients_receive_the_four_kinds_of_events(
    client: Client, script: Script, broker: Broker
) -> None:
    script.listings[LIST] = [*FOUND, "http://example.test/3.mp3"]
    asking, reading, _ = blocks(page("docs/events.md"), "python")

    events = await _printed(asking, broker, "bridge", FONTE=LIST)
    later = await _printed(reading, broker, "listener")

    assert later == events
    whole, *rest = events
    assert (whole["tipo_evento"], "job_id" in whole["payload"]) == ("iniciar_coleta", False)
    assert whole["payload"]["fonte"] == {"listas": [LIST], "enderecos": []}
    assert whole["payload"]["parametros"]["max_members"] == 2
    assert whole["payload"]["parametros"]["language"] == "en"
    assert {one["payload"]["fonte"] for one in rest} == set(FOUND)
    for address in FOUND:
        recording = [one for one in rest if one["payload"]["fonte"] == address]
        assert Counter(one["tipo_evento"] for one in recording) == dict.fromkeys(KINDS, 1)
        assert (recording[0]["tipo_evento"], recording[-1]["tipo_evento"]) == (
            KINDS[0],
            KINDS[-1],
        )
        assert recording[-1]["payload"]["segmentos"] == 6
    assert {one["payload"]["collection_id"] for one in events} == {
        whole["payload"]["collection_id"]
    }
    for one in events:
        validator(f"out.{one['tipo_evento']}").validate(one)


async def test_a_failure_is_published_and_a_malformed_event_becomes_a_dead_letter(
    client: Client, script: Script, broker: Broker
) -> None:
    script.failures = [SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)]
    received: list[dict[str, Any]] = []

    async def receive(message: Any) -> None:
        received.append(json.loads(message.data))

    plain = await broker.connect("bridge")
    try:
        await plain.subscribe("ytc.out.>", cb=receive)
        await plain.publish("ytc.in.iniciar_coleta", b'{"tipo_evento": "iniciar_coleta"}')
        question = {
            "correlation_id": "mine",
            "tipo_evento": "iniciar_coleta",
            "timestamp": "2026-11-16T12:00:00Z",
            "payload": {"fonte": FOUND[:1]},
        }
        await plain.publish("ytc.in.iniciar_coleta", json.dumps(question).encode())

        async def ended() -> bool:
            return any(one["tipo_evento"] == "resultado_execucao" for one in received)

        await until(ended)
    finally:
        await plain.close()

    kinds = ("resultado_coleta", "resultado_execucao")
    results = [one["payload"] for one in received if one["tipo_evento"] in kinds]
    assert [one["estado"] for one in results] == ["failed", "skipped"]
    assert [one["falha"]["motivo"] for one in results] == ["VIDEO_PRIVATE", "VIDEO_PRIVATE"]
    [letter] = await letters(client, reason="EVENT_MALFORMED")
    assert letter.failure.message.startswith("correlation_id: field required; timestamp: ")
