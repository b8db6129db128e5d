"""examples/escavador_blog_nats serves a type with nothing but JSON over NATS."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nats.js import api
from nats.js.errors import NotFoundError

from mesh.bus import Bus
from mesh.stores import Limits
from orchestrator.events.parsing import ContractMessage
from tests.orchestrator.conftest import STORAGE, connected
from tests.support.broker import Broker, running_broker
from tests.support.polling import until
from tests.support.processes import stop_process
from tests.support.site import Site
from tests.support.strangers import ROOT

PROGRAM = ROOT / "examples" / "escavador_blog_nats" / "escavador.py"
STREAM = "YTC_QUEUES"
RSS = """<rss><channel><item><title>Um</title><link>http://a.test/1</link>
<description>Texto do um.</description></item></channel></rss>"""


@asynccontextmanager
async def queue_of(bus: Bus, type_: str) -> AsyncIterator[None]:
    """The queue of a type, as an orchestrator makes it when the first task comes."""
    stream = bus.jetstream
    try:
        await stream.stream_info(STREAM)
    except NotFoundError:
        retention = api.RetentionPolicy.WORK_QUEUE
        await stream.add_stream(name=STREAM, subjects=["ytc.queue.*"], retention=retention)
    config = api.ConsumerConfig(
        durable_name=type_,
        filter_subject=f"ytc.queue.{type_}",
        ack_policy=api.AckPolicy.EXPLICIT,
        ack_wait=60,
    )
    await stream.add_consumer(STREAM, config)
    yield


@asynccontextmanager
async def program(broker: Broker) -> AsyncIterator[None]:
    environment = {**os.environ, "NATS_URL": broker.url, "NATS_KEY": broker.credentials}
    process = await asyncio.create_subprocess_exec(
        sys.executable, PROGRAM, env=environment, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"serving blog\n"
        yield
    finally:
        await stop_process(process, 60)


async def answer_to(bus: Bus, address: str) -> ContractMessage:
    """What it answers to a task about this address."""
    task: dict[str, Any] = {"tarefa_id": "t-1", "tipo": "blog", "tentativa": 1}
    message = {
        "correlation_id": "c-1",
        "tipo_evento": "iniciar_coleta",
        "timestamp": "2026-11-19T21:00:00+00:00",
        "payload": task | {"parametros": {"endereco": address}},
    }
    inbox = await bus.jetstream.pull_subscribe("ytc.in.resultado_coleta", durable="test")
    await bus.jetstream.publish("ytc.queue.blog", json.dumps(message).encode())
    async with asyncio.timeout(120):
        while True:
            try:
                [found] = await inbox.fetch(1, timeout=10)
            except TimeoutError:
                continue
            await found.ack()
            return ContractMessage.model_validate_json(found.data)


async def test_a_task_is_answered_and_only_then_acknowledged(tmp_path: Path, site: Site) -> None:
    feed = site.page("/nats.xml", RSS.encode(), "application/rss+xml")
    async with (
        running_broker(tmp_path) as broker,
        connected(broker, limits=Limits(storage_bytes=STORAGE)) as bus,
        program(broker),
        queue_of(bus, "blog"),  # made later: it waits for its queue
    ):
        good = await answer_to(bus, feed)
        bad = await answer_to(bus, f"{site.url}/nowhere")

        async def queue_is_empty() -> bool:
            return (await bus.jetstream.stream_info(STREAM)).state.messages == 0

        await until(queue_is_empty)

    assert (good.correlation_id, good.tipo_evento) == ("c-1", "resultado_coleta")
    assert good.payload == {
        "tarefa_id": "t-1",
        "status": "concluida",
        "erros": [],
        "dados": [
            {
                "tipo": "documento",
                "url": "http://a.test/1",
                "titulo": "Um",
                "texto": "Texto do um.",
            }
        ],
    }
    assert bad.payload["status"] == "erro"
    assert bad.payload["erros"][0]["repetivel"] is True


def test_the_program_has_fewer_than_60_lines() -> None:
    assert len(PROGRAM.read_text().splitlines()) < 60
