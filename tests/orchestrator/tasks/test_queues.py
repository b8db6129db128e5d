"""Programs that know only JSON over NATS and have a worker's key: collectors and executors."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from nats.aio.client import Client as Nats

from mesh.bus import Bus
from tests.docs.pages import blocks, page
from tests.orchestrator.conftest import Start
from tests.support.broker import Broker
from tests.support.client import Client
from tests.support.collections import addresses, collect, seconds, settled
from tests.support.fixed_types import FixedTypes
from tests.support.polling import until
from tests.support.segments import TEXT
from tests.support.tasks import (
    collector,
    documents,
    executor,
    result,
    source,
    state,
    states,
    struct,
    subtasks,
)
from ytcaption.v1 import collection_pb2

COMPLETE = collection_pb2.COLLECTION_STATE_COMPLETE


@asynccontextmanager
async def worker(broker: Broker) -> AsyncIterator[Nats]:
    client = await broker.connect("worker")
    try:
        yield client
    finally:
        await client.close()


async def task_of(client: Nats, type_: str) -> tuple[dict[str, Any], Any]:
    """The next message in the queue of a type."""
    queue = await client.jetstream().pull_subscribe_bind(type_, stream="YTC_QUEUES")
    async with asyncio.timeout(240):
        while True:
            try:
                [message] = await queue.fetch(1, timeout=10)
            except TimeoutError:
                continue
            return json.loads(message.data), message


async def answer(client: Nats, kind: str, asked: dict[str, Any], **payload: Any) -> None:
    body = {
        "correlation_id": asked["correlation_id"],
        "tipo_evento": kind,
        "timestamp": "2026-11-19T12:00:00Z",
        "payload": payload,
    }
    await client.jetstream().publish(f"ytc.in.{kind}", json.dumps(body).encode(), timeout=60)


def found(count: int) -> list[dict[str, Any]]:
    return [
        {"tipo": "documento", "url": f"http://blog.test/{number}", "texto": f"Text {number}"}
        for number in range(1, count + 1)
    ]


async def test_a_program_behind_a_queue_is_a_full_member(start: Start, broker: Broker) -> None:
    types = FixedTypes([collector("blog"), executor("resumo")])
    async with start(types) as client, worker(broker) as program:
        made = await collect(
            client,
            *addresses(1),
            source_specs=[source("blog", feed="http://blog.test/rss")],
            executors=[result("resumo", parameters=struct(lines=3))],
            from_date="2025-10-01",
        )
        asked, message = await task_of(program, "blog")
        assert asked["tipo_evento"] == "iniciar_coleta"
        assert asked["correlation_id"] == made.correlation_id
        payload = asked["payload"]
        assert (payload["tipo"], payload["tentativa"]) == ("blog", 1)
        assert payload["parametros"] == {"feed": "http://blog.test/rss"}
        assert (payload["de"], payload["ate"], payload["limite"]) == ("2025-10-01", None, 5000)
        talk = {"tipo": "gravacao", "url": addresses(2)[1], "titulo": "Another"}
        await answer(
            program,
            "resultado_coleta",
            asked,
            tarefa_id=payload["tarefa_id"],
            status="concluida",
            dados=[*found(2), talk],
            erros=[],
        )
        await message.ack()

        asked, message = await task_of(program, "resumo")
        assert asked["tipo_evento"] == "iniciar_execucao"
        items = asked["payload"]["itens"]
        assert [one["tipo"] for one in items] == ["gravacao"] * 2 + ["documento"] * 2
        assert items[0]["endereco"] == f"/jobs/{items[0]['job_id']}/captions.txt"
        assert items[2]["texto"] == "Text 1"
        assert items[0]["texto"] == TEXT.replace("\n", " ").strip()
        await answer(
            program,
            "resultado_execucao",
            asked,
            tarefa_id=asked["payload"]["tarefa_id"],
            status="concluida",
            resultado={"linhas": 3},
        )
        await message.ack()
        collection, members = await settled(client, made.collection_id)

        assert collection.state == COMPLETE
        assert sorted(one.source_url for one in members) == addresses(2)
        assert len(await documents(client, made.collection_id)) == 2
        collected, executed = await subtasks(client, made.collection_id)
        assert (collected.found, dict(executed.result)) == (3, {"linhas": 3})


async def test_a_result_without_a_task_id_belongs_to_the_only_task_of_its_correlation(
    start: Start, broker: Broker
) -> None:
    async with start(FixedTypes([collector("blog")])) as client, worker(broker) as program:
        made = await collect(client, source_specs=[source("blog")])
        asked, _ = await task_of(program, "blog")
        await answer(program, "resultado_coleta", asked, status="concluida", dados=found(1))
        collection, _ = await settled(client, made.collection_id)
        assert (collection.state, collection.document_count) == (COMPLETE, 1)


async def test_a_failure_is_retried_as_the_program_says_and_then_counts(
    start: Start, broker: Broker
) -> None:
    fault = {"motivo": "SITE_ERROR", "mensagem": "the blog is down", "repetivel": True}
    async with start(FixedTypes([collector("blog")])) as client, worker(broker) as program:
        made = await collect(client, source_specs=[source("blog")])
        for attempt, more in ((1, {}), (2, {"repetivel": False})):
            asked, message = await task_of(program, "blog")
            task_id = asked["payload"]["tarefa_id"]
            assert asked["payload"]["tentativa"] == attempt
            await message.ack()
            await answer(
                program,
                "resultado_coleta",
                asked,
                tarefa_id=task_id,
                status="erro",
                erros=[fault | more],
            )
        await settled(client, made.collection_id)
        (subtask,) = await subtasks(client, made.collection_id)
        assert (state(subtask), subtask.failure.reason) == ("FAILED", "SITE_ERROR")
        assert subtask.failure.message == "the blog is down"


async def test_a_result_that_never_comes_is_a_timeout_and_blocks_nothing(
    start: Start, broker: Broker, broker_bus: Bus
) -> None:
    types = FixedTypes([collector("blog", seconds=1), collector("silent", seconds=240)])
    async with start(types, max_attempts=2) as client:
        made = await collect(
            client,
            *addresses(1),
            source_specs=[source("blog"), source("silent")],
            timeout=seconds(12),
        )
        collection, members = await settled(client, made.collection_id)
        assert collection.state == collection_pb2.COLLECTION_STATE_PARTIAL
        assert [one.state for one in members] == [collection_pb2.MEMBER_STATE_COMPLETED]
        there = await subtasks(client, made.collection_id)
        assert states(there) == {"blog": "FAILED", "silent": "TIMED_OUT"}
        assert there[0].failure.reason == "DEADLINE"
        # A message that no program took does not outlive its task.
        assert (await broker_bus.state("YTC_QUEUES")).messages == 0


async def test_a_result_twice_counts_once_and_a_late_one_not_at_all(
    start: Start, broker: Broker, broker_bus: Bus
) -> None:
    async with start(FixedTypes([collector("blog")])) as client, worker(broker) as program:
        made = await collect(client, source_specs=[source("blog")])
        asked, _ = await task_of(program, "blog")
        task_id = asked["payload"]["tarefa_id"]
        for dados in (found(2), found(3)):
            await answer(
                program,
                "resultado_coleta",
                asked,
                tarefa_id=task_id,
                status="concluida",
                dados=dados,
            )
        collection, _ = await settled(client, made.collection_id)
        assert collection.document_count == 2
        await answer(
            program, "resultado_coleta", asked, tarefa_id=task_id, status="concluida", dados=[]
        )

        async def handled() -> bool:
            return (await broker_bus.state("YTC_INBOX")).messages == 0

        await until(handled)
        assert len(await documents(client, made.collection_id)) == 2
        (subtask,) = await subtasks(client, made.collection_id)
        assert state(subtask) == "COMPLETED"


async def test_an_answer_that_was_stored_before_a_crash_is_not_asked_for_again(
    start: Start, broker: Broker, broker_bus: Bus
) -> None:
    async with worker(broker) as program:
        async with start(FixedTypes([collector("blog")])) as client:
            made = await collect(client, source_specs=[source("blog")])
            asked, message = await task_of(program, "blog")
            await message.ack()
        # No orchestrator runs: the answer waits in the inbox.
        await answer(program, "resultado_coleta", asked, status="concluida", dados=found(1))
        async with start(FixedTypes([collector("blog")])) as client:
            collection, _ = await settled(client, made.collection_id)
            assert (collection.state, collection.document_count) == (COMPLETE, 1)


async def test_an_event_names_collectors_and_executors(start: Start, broker: Broker) -> None:
    types = FixedTypes([collector("blog"), executor("resumo")])
    producer = await broker.connect("producer")
    async with start(types), worker(broker) as program:
        body = {
            "correlation_id": "seed",
            "tipo_evento": "iniciar_coleta",
            "timestamp": "2026-11-19T12:00:00Z",
            "payload": {
                "fonte": "blog",
                "parametros": {"feed": "http://blog.test/rss", "tempo_limite": 200},
                "executadores": [{"tipo": "resumo", "parametros": {"linhas": 3}}],
            },
        }
        await producer.publish("ytc.in.iniciar_coleta", json.dumps(body).encode())
        asked, _ = await task_of(program, "blog")
        assert asked["correlation_id"] == "seed"
        assert asked["payload"]["parametros"] == {"feed": "http://blog.test/rss"}
        await answer(program, "resultado_coleta", asked, status="concluida", dados=found(1))
        asked, _ = await task_of(program, "resumo")
        assert asked["payload"]["parametros"] == {"linhas": 3}
        await answer(program, "resultado_execucao", asked, status="concluida", resultado={})
    await producer.close()


async def test_the_documented_program_serves_a_type(start: Start, broker: Broker) -> None:
    *_, program = blocks(page("docs/events.md"), "python")
    async with start(FixedTypes([collector("blog")])) as client:
        made = await collect(client, source_specs=[source("blog")])
        await until(lambda: _is_asked(client, made.collection_id))
        variables = {"NATS_URL": broker.url, "NATS_KEY": broker.key("worker"), "TYPE": "blog"}
        running = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program), env={**os.environ, **variables}
        )
        try:
            assert await asyncio.wait_for(running.wait(), 120) == 0
        finally:
            if running.returncode is None:
                running.kill()
        await settled(client, made.collection_id)
        [text] = await documents(client, made.collection_id)
        assert (text.title, text.text) == ("First", "Hello")


async def _is_asked(client: Client, collection_id: str) -> bool:
    found = await subtasks(client, collection_id)
    return states(found) == {"blog": "RUNNING"}
