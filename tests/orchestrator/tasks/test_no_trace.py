"""What is stored of tasks belongs to their collection: it is exported, and goes with it."""

import io
import json
import zipfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from mesh.bus import Bus
from mesh.errors import InvalidRequestError
from orchestrator.collections.records import CollectionStore
from orchestrator.jobs.storage import JobStorage
from orchestrator.maintenance.inventory import Inventory
from orchestrator.maintenance.orphans import Orphans
from orchestrator.settings import Settings
from orchestrator.tasks.records import TaskStore
from tests.orchestrator.conftest import Start
from tests.orchestrator.maintenance import test_erasure
from tests.orchestrator.maintenance.test_erasure import (
    Owner,
    erase,
    found_in_files,
    owner_named,
)
from tests.support.client import Client
from tests.support.collections import collect, settled
from tests.support.fixed_types import FixedTypes
from tests.support.tasks import (
    Made,
    ScriptedCollector,
    ScriptedExecutor,
    collector,
    document,
    executor,
    file,
    result,
    source,
    struct,
    subtasks,
    traces,
)
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import task_pb2

script, first_token, receiver = (
    test_erasure.script,
    test_erasure.first_token,
    test_erasure.receiver,
)
login = test_erasure.login
MARK = "markana"
"""In everything that the owner's tasks bring; see test_erasure.Owner."""


def _types() -> FixedTypes:
    blog = ScriptedCollector(
        [
            document(f"http://blog.test/{MARK}", f"{MARK} text " * 1000),
            *file(f"{MARK}.wav", f"{MARK} bytes".encode() * 3000),
        ],
        [InvalidRequestError(f"{MARK} refused")],
    )
    report = ScriptedExecutor(
        [
            Made(file=task_pb2.ResultFile(name=f"{MARK}.md")),
            Made(chunk=f"{MARK} report".encode() * 3000),
            Made(result=struct(words=MARK)),
        ]
    )
    return FixedTypes([collector("blog", blog), executor("report", report)])


@pytest.fixture
async def stranger(start: Start, login: dict[str, object]) -> AsyncIterator[Client]:
    async with start(_types(), **login) as client:
        yield client


@pytest.fixture
async def ana(stranger: Client, first_token: str) -> Owner:
    return await owner_named(stranger.with_token(first_token), stranger, "ana")


async def _collected(owner: Client) -> tuple[str, list[str]]:
    """The ids of a collection and of its tasks, which have ended."""
    made = await collect(
        owner, source_specs=[source("blog", words=MARK)], executors=[result("report")]
    )
    await settled(owner, made.collection_id)
    return made.collection_id, [one.task_id for one in await subtasks(owner, made.collection_id)]


async def test_an_erasure_leaves_nothing_of_tasks_on_the_disk(
    stranger: Client, ana: Owner, first_token: str, tmp_path: Path, broker_bus: Bus
) -> None:
    _, ids = await _collected(ana.client)
    assert found_in_files(tmp_path, MARK)

    updates = await erase(stranger.with_token(first_token), "ana")

    assert updates[-1].finished
    assert updates[-1].removed.dead_letters == 1
    assert await traces(broker_bus, *ids) == []
    assert found_in_files(tmp_path, MARK) == []


async def test_an_export_has_the_documents_and_files_of_tasks(ana: Owner) -> None:
    collection_id, ids = await _collected(ana.client)

    call = ana.client.admin.ExportOwner(pb.ExportOwnerRequest())
    data = b"".join([part.chunk async for part in call])

    with zipfile.ZipFile(io.BytesIO(data)) as found:
        files = {name: found.read(name) for name in found.namelist()}
    folders = [f"collections/{collection_id}/tasks/{one}" for one in ids]
    assert MARK.encode() in files[f"{folders[0]}/events.jsonl"]
    assert files[f"{folders[1]}/result-1"] == f"{MARK} report".encode() * 3000
    assert json.loads(files[f"{folders[1]}/task.json"])["result"] == {"words": MARK}


async def test_a_reset_removes_tasks_and_their_queues(start: Start, broker_bus: Bus) -> None:
    async with start(_types()) as client:
        _, ids = await _collected(client)
        request = pb.FactoryResetRequest(confirmation="ERASE EVERYTHING")
        done = await client.admin.FactoryReset(request)

        assert not done.services[0].error
        assert await traces(broker_bus, *ids) == []


async def test_the_file_of_a_task_is_an_orphan_only_without_its_task(
    start: Start, broker_bus: Bus, tmp_path: Path
) -> None:
    tasks = TaskStore(broker_bus)
    orphans = Orphans(
        JobStorage.on(broker_bus),
        CollectionStore(broker_bus),
        Inventory(broker_bus),
        Settings(work_dir=tmp_path),
        tasks,
    )
    async with start(_types()) as client:
        _, ids = await _collected(client)
        # A file that the collector sent became an upload of its own.
        assert (await orphans.remove(timedelta(0))).stored.files == 0
        await tasks.remove(ids[1])
        assert (await orphans.remove(timedelta(0))).stored.files == 1
