"""The programs of examples/ serve collections of a real orchestrator."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mesh.addresses import free_ports
from tests.orchestrator.conftest import Start
from tests.support.broker import Broker
from tests.support.collections import collect, settled
from tests.support.processes import stop_process
from tests.support.site import Site
from tests.support.strangers import ROOT, serving_program, stranger_environment
from tests.support.tasks import result, source, struct, subtasks
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import collection_pb2, task_pb2
from ytcaption.v1 import collection_service_pb2 as pb

RSS = b"""<rss><channel><item><title>Um</title><link>http://a.test/1</link>
<description>Texto do um.</description></item></channel></rss>"""
COMPLETE = collection_pb2.COLLECTION_STATE_COMPLETE


@asynccontextmanager
async def queue_program(broker: Broker) -> AsyncIterator[None]:
    environment = {**os.environ, "NATS_URL": broker.url, "NATS_KEY": broker.key("worker")}
    environment["TIPO"] = "noticias"
    program = ROOT / "examples" / "escavador_blog_nats" / "escavador.py"
    process = await asyncio.create_subprocess_exec(sys.executable, program, env=environment)
    try:
        yield
    finally:
        await stop_process(process, 60)


async def test_examples_collect_over_grpc_and_over_nats_and_count_the_words(
    start: Start, broker: Broker, site: Site, tmp_path: Path
) -> None:
    feed = site.page("/joined.xml", RSS, "application/rss+xml")
    environment = stranger_environment(tmp_path)
    blog, words = (f"127.0.0.1:{port}" for port in free_ports(2))
    examples = ROOT / "examples"
    async with (
        start() as client,
        queue_program(broker),
        serving_program(environment, "escavador.py", blog, folder=examples / "escavador_blog"),
        serving_program(
            environment, "executador.py", words, folder=examples / "executador_palavras"
        ),
    ):
        for name, role, address in (
            ("blog", task_pb2.TASK_ROLE_COLLECTOR, blog),
            ("palavras", task_pb2.TASK_ROLE_EXECUTOR, words),
            ("noticias", task_pb2.TASK_ROLE_COLLECTOR, ""),
        ):
            transport = task_pb2.TASK_TRANSPORT_GRPC if address else task_pb2.TASK_TRANSPORT_QUEUE
            await client.admin.RegisterType(
                admin_pb.RegisterTypeRequest(
                    type=name,
                    role=role,
                    transport=transport,
                    addresses=[address] if address else [],
                )
            )
        made = await collect(
            client,
            source_specs=[source("blog", endereco=feed), source("noticias", endereco=feed)],
            executors=[result("palavras"), result("relatorio", parameters=struct(formato="md"))],
        )
        ended, _ = await settled(client, made.collection_id)
        found = {one.type: one for one in await subtasks(client, made.collection_id)}
        report = pb.GetResultFileRequest(
            collection_id=made.collection_id, subtask=found["relatorio"].number
        )
        report.name = found["relatorio"].files[0].name
        content = b"".join([one.chunk async for one in client.collections.GetResultFile(report)])

    assert ended.state == COMPLETE
    assert dict(found["palavras"].result) == {"itens": 2, "palavras": 6, "distintas": 3}
    assert content.count(b"Texto do um.") == 2
