"""The pseudo-code of the original document: several destinations, one aggregate, in time."""

import asyncio
import json
from collections import Counter
from typing import Any

import grpc
import pytest

from mesh.bus import Bus
from mesh.server import Service, running_server
from tests.orchestrator.conftest import Start
from tests.orchestrator.events.schema import validator
from tests.support.broker import Broker
from tests.support.collections import (
    bring_deadline,
    counts,
    pass_deadline,
    running_controllers,
    settled,
    until_states,
)
from tests.support.fixed_types import FixedTypes
from tests.support.grpc_tasks import Blog, GrpcCollector, GrpcExecutor, Reporter
from tests.support.polling import until
from tests.support.scripted import Script
from tests.support.tasks import ScriptedCollector, collector, executor, states, subtasks
from ytcaption.v1 import (
    collection_pb2,
    collector_service_pb2,
    collector_service_pb2_grpc,
    executor_service_pb2,
    executor_service_pb2_grpc,
)
from ytcaption.v1 import collection_service_pb2 as pb

CHANNEL = "http://example.test/channel"
TALKS = ["http://example.test/1.mp3", "http://example.test/2.mp3"]
TIMEOUT_SECONDS = 40_000
"""30 s in the document; the test lets the time pass, so that no slow machine changes a state."""
MARGIN_SECONDS = 10_000
MESSAGE = {
    "correlation_id": "abc123",
    "tipo_evento": "iniciar_coleta",
    "timestamp": "2025-10-14T12:00:00Z",
    "payload": {
        "fonte": CHANNEL,
        "fontes": [
            {"tipo": "escavador_blog", "parametros": {"url": "http://blog.test"}},
            {"tipo": "escavador_mudo"},
        ],
        "executadores": [{"tipo": "executador_relatorio"}],
        "parametros": {"tempo_limite": TIMEOUT_SECONDS},
    },
}


async def test_results_are_awaited_until_the_time_limit_and_aggregated_once(
    start: Start,
    script: Script,
    broker: Broker,
    broker_bus: Bus,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    controllers = running_controllers(monkeypatch)
    script.listings[CHANNEL] = TALKS  # stands in for the site
    services = [
        Service.of(
            collector_service_pb2.DESCRIPTOR.services_by_name["CollectorService"],
            collector_service_pb2_grpc.add_CollectorServiceServicer_to_server,
            Blog(),
        ),
        Service.of(
            executor_service_pb2.DESCRIPTOR.services_by_name["ExecutorService"],
            executor_service_pb2_grpc.add_ExecutorServiceServicer_to_server,
            Reporter(),
        ),
    ]
    async with (
        running_server(services, grace_seconds=0) as strangers,
        grpc.aio.insecure_channel(f"127.0.0.1:{strangers.port}") as channel,
    ):
        types = FixedTypes(
            [
                collector("escavador_blog", GrpcCollector(channel)),
                collector("escavador_mudo", ScriptedCollector(hangs=True)),
                executor("executador_relatorio", GrpcExecutor(channel)),
            ]
        )
        async with start(types, executor_margin_seconds=MARGIN_SECONDS) as client:
            listener = await broker.connect("bridge")
            published: list[dict[str, Any]] = []

            async def note(message: Any) -> None:
                published.append(json.loads(message.data))

            await listener.subscribe("ytc.out.resultado_agregado", cb=note)
            await listener.flush(60)
            await listener.publish("ytc.in.iniciar_coleta", json.dumps(MESSAGE).encode())
            collection_id = await _accepted(client)
            await until_states(client, collection_id, COMPLETED=2)
            await _until(client, collection_id, escavador_blog="COMPLETED")
            assert len(await subtasks(client, collection_id)) == 2
            bring_deadline(controllers, MARGIN_SECONDS - 10)  # the report begins
            await _until(client, collection_id, executador_relatorio="COMPLETED")
            pass_deadline(controllers)
            collection, members = await settled(client, collection_id)

            # Returned by the API.
            assert collection.state == collection_pb2.COLLECTION_STATE_PARTIAL
            assert counts(collection) == {"COMPLETED": 2}
            assert sorted(one.source_url for one in members) == TALKS
            there = await subtasks(client, collection_id)
            assert states(there) == {
                "escavador_blog": "COMPLETED",
                "escavador_mudo": "TIMED_OUT",
                "executador_relatorio": "COMPLETED",
            }
            assert dict(there[2].result) == {"itens": 5}  # it ran on what there was

            # Published, once.
            await until(lambda: bool(published))
            handled = await broker_bus.jetstream.consumer_info("YTC_EVENTS", "herald")

            async def idle() -> bool:
                info = await broker_bus.jetstream.consumer_info("YTC_EVENTS", "herald")
                return not info.num_pending and not info.num_ack_pending

            assert handled
            await until(idle)
            await listener.flush(60)
            (aggregate,) = published
            validator("out.resultado_agregado").validate(aggregate)
            payload = aggregate["payload"]
            assert aggregate["correlation_id"] == "abc123"
            assert (payload["completo"], payload["total"]) == (False, 5)
            assert payload["contagens"]["concluida"] == 4
            assert payload["contagens"]["timeout"] == 1
            found = Counter((one.get("funcao"), one["status"]) for one in payload["subtarefas"])
            assert found == {
                (None, "concluida"): 2,
                ("escavador", "concluida"): 1,
                ("escavador", "timeout"): 1,
                ("executador", "concluida"): 1,
            }
            report = next(one for one in payload["subtarefas"] if one["fonte"] == there[2].type)
            assert report["dados"] == {"itens": 5}
            assert report["arquivos"][0]["nome"] == "relatorio.md"

            # In the report.
            written = json.loads(await _report(client, collection_id, pb.REPORT_FORMAT_JSON))
            assert [(one["type"], one["state"]) for one in written["subtasks"]] == [
                ("escavador_blog", "COMPLETED"),
                ("escavador_mudo", "TIMED_OUT"),
                ("executador_relatorio", "COMPLETED"),
            ]
            assert [one["title"] for one in written["documents"]] == [
                "Post 1",
                "Post 2",
                "Post 3",
            ]
            for format_ in (pb.REPORT_FORMAT_MARKDOWN, pb.REPORT_FORMAT_HTML):
                text = (await _report(client, collection_id, format_)).decode()
                assert "timed out" in text
                assert "Post 2" in text
            await listener.close()


async def _until(client: Any, collection_id: str, **wanted: str) -> None:
    """Returns when the subtasks of these types stand there."""

    async def reached() -> bool:
        return wanted.items() <= states(await subtasks(client, collection_id)).items()

    await until(reached)


async def _accepted(client: Any) -> str:
    """The id of the collection that the message started."""
    async with asyncio.timeout(240):
        while True:
            page = await client.collections.ListCollections(pb.ListCollectionsRequest())
            if page.collections:
                return str(page.collections[0].collection_id)
            await asyncio.sleep(0.05)


async def _report(client: Any, collection_id: str, format_: Any) -> bytes:
    call = client.collections.GetReport(
        pb.GetReportRequest(collection_id=collection_id, format=format_)
    )
    return b"".join([one.chunk async for one in call])
