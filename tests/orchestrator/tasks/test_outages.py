"""Orchestrators, collectors and executors that die: nothing is lost, and nothing counts twice."""

import asyncio
import json
import random
from collections import Counter
from pathlib import Path

import grpc
import pytest

from mesh.bus import Bus
from mesh.server import running_server
from orchestrator.collections.projection import CollectionEventWriter
from orchestrator.jobs.artifacts import Artifacts
from orchestrator.pipeline.stages import STAGES
from orchestrator.tasks.lease import TaskLease
from orchestrator.tasks.queue import TaskQueue
from orchestrator.tasks.records import TaskStore
from orchestrator.tasks.storage import TaskStorage
from tests.orchestrator.conftest import STORAGE, Start
from tests.support.broker import Broker
from tests.support.client import Client
from tests.support.collections import addresses, collect, event_log, kinds, read, settled
from tests.support.fixed_types import FixedTypes
from tests.support.polling import until
from tests.support.processes import dies_at
from tests.support.scripted import Script
from tests.support.scripted_stages import scripted_services
from tests.support.task_processes import POSTS, Process, processes
from tests.support.tasks import (
    Made,
    ScriptedCollector,
    ScriptedExecutor,
    collector,
    document,
    documents,
    executor,
    file,
    recording,
    result,
    source,
    state,
    struct,
    subtasks,
)
from ytcaption.v1 import collection_pb2, task_pb2
from ytcaption.v1 import collection_service_pb2 as pb

COMPLETE = collection_pb2.COLLECTION_STATE_COMPLETE
ITEM = task_pb2.EXECUTOR_SCOPE_ITEM
MEMBERS = 3
KILLS = 6
FILE = [Made(file=task_pb2.ResultFile(name="a")), Made(chunk=b"x"), Made(chunk=b"")]


async def _check(client: Client, bus: Bus, collection_id: str) -> None:
    """Every item is there once, and every subtask ended once."""
    found = await subtasks(client, collection_id)
    targets = Counter((one.type, one.member, one.document) for one in found)
    assert set(targets.values()) == {1}
    assert {state(one) for one in found} == {"COMPLETED"}
    texts = await documents(client, collection_id)
    assert len({one.url for one in texts}) == len(texts)
    assert all(one.text for one in texts)
    _, members = await read(client, collection_id)
    assert len(targets) == 2 + len(members) + len(texts)
    appended = kinds(await event_log(bus, collection_id))
    assert (appended["COLLECTION_GATHERED"], appended["COLLECTION_SETTLED"]) == (1, 1)
    assert appended["DOCUMENT_FOUND"] == len(texts)


@pytest.mark.parametrize(
    ("kind", "name", "call"),
    [
        *((CollectionEventWriter, "append_subtask", call) for call in (1, 2, 4, 7)),
        *((CollectionEventWriter, "append_document", call) for call in (1, 2)),
        *((CollectionEventWriter, "append_member", call) for call in (1, 2)),
        *((TaskStorage, "accept", call) for call in (1, 3)),
        *((TaskQueue, "put", call) for call in (1, 3)),
        *((TaskStore, "create", call) for call in (1, 3)),
        *((TaskLease, "take", call) for call in (1, 3)),
        *((TaskLease, "save", call) for call in (1, 2, 3)),
        *((TaskStorage, "end", call) for call in (1, 3)),
        *((TaskStorage, "complete", call) for call in (1, 3)),
        *((Artifacts, "put_file", call) for call in (1, 2, 3)),
    ],
)
async def test_a_worker_or_controller_that_dies_at_any_step_loses_and_duplicates_nothing(  # noqa: PLR0913
    start: Start,
    broker_bus: Bus,
    monkeypatch: pytest.MonkeyPatch,
    kind: type,
    name: str,
    call: int,
) -> None:
    monkeypatch.setattr("orchestrator.queue.consumers.RECORD_SECONDS", 240)
    found = [document("http://blog.test/1"), recording(addresses(1)[0]), *file("a.wav", b"a" * 64)]
    blog = ScriptedCollector([*found, document("http://blog.test/2")])
    each, whole = ScriptedExecutor(), ScriptedExecutor([*FILE, Made(result=struct(done=True))])
    types = FixedTypes(
        [collector("blog", blog), executor("each", each, scope=ITEM), executor("whole", whole)]
    )
    async with start(types) as client:
        deaths = dies_at(monkeypatch, kind, name, call)
        made = await collect(
            client, source_specs=[source("blog")], executors=[result("whole"), result("each")]
        )
        collection, members = await settled(client, made.collection_id)
        assert deaths
        assert (collection.state, collection.document_count, len(members)) == (COMPLETE, 2, 2)
        await _check(client, broker_bus, made.collection_id)


async def test_nothing_is_lost_or_twice_when_processes_are_killed(
    script: Script, broker: Broker, broker_bus: Bus, tmp_path: Path
) -> None:
    """Orchestrators, and the process of a collector and an executor, in the middle of work."""
    dice = random.Random(18)  # noqa: S311 # a seed
    async with running_server(scripted_services(script), grace_seconds=0) as stages:
        strangers = Process("strangers", {})
        both = [
            Process("orchestrator", _environ(broker, stages.port, strangers.port, tmp_path / name))
            for name in ("one", "other")
        ]
        async with processes(strangers, *both):
            collection_id = await _created(both)
            for _ in range(KILLS):
                await asyncio.sleep(dice.uniform(0.2, 1.5))
                victim = dice.choice([strangers, *both])
                await victim.kill()
                await victim.start()
            async with grpc.aio.insecure_channel(f"127.0.0.1:{both[0].port}") as channel:
                client = Client(channel)

                async def is_settled() -> bool:
                    try:
                        collection, _ = await read(client, collection_id)
                    except grpc.aio.AioRpcError:
                        return False
                    return collection.settled

                await until(is_settled, 200)
                collection, members = await read(client, collection_id)
                assert collection.state == COMPLETE
                assert sorted(one.source_url for one in members) == addresses(MEMBERS)
                assert collection.document_count == POSTS
                await _check(client, broker_bus, collection_id)


def _environ(broker: Broker, stages: int, strangers: int, folder: Path) -> dict[str, str]:
    settings = {
        "nats_url": broker.url,
        "nats_credentials": broker.credentials,
        **{stage.name: f"127.0.0.1:{stages}" for stage in STAGES},
        "storage_bytes": STORAGE,
        "retry_seconds": 0.1,
        "retry_limit_seconds": 1,
        "circuit_seconds": 0.1,
        "ack_wait_seconds": 3,
        "max_attempts": 100,
        "max_crashes": 100,
        "metrics_listen": "",
        "work_dir": str(folder),
    }
    return {"SETTINGS": json.dumps(settings), "STRANGERS": str(strangers)}


async def _created(orchestrators: list[Process]) -> str:
    """The id of the collection, once one of the orchestrators has accepted it."""
    request = pb.CreateCollectionRequest(
        request_id="chaos",
        addresses=addresses(MEMBERS),
        source_specs=[source("blog")],
        executors=[result("whole"), result("each")],
    )
    async with asyncio.timeout(120):
        while True:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{orchestrators[0].port}") as channel:
                try:
                    made = await Client(channel).collections.CreateCollection(request)
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.2)
                    continue
                return made.collection.collection_id
