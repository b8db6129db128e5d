"""An orchestrator that is killed while it indexes loses nothing, and finds nothing twice."""

import asyncio
import os
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import grpc
import pytest

from mesh.addresses import free_ports
from mesh.bus import Bus
from tests.orchestrator.conftest import connected
from tests.support.broker import Broker
from tests.support.client import Client
from tests.support.polling import until
from tests.support.processes import kill, stop_process
from tests.support.transcripts import spoken, store_job

JOBS = 240
KILLS = 3
SEGMENTS = 60


@asynccontextmanager
async def orchestrator(broker: Broker, folder: Path) -> AsyncIterator[tuple[int, Client]]:
    """A process of its own, and a client; it has no stages, and needs none."""
    listen = f"127.0.0.1:{free_ports(1)[0]}"
    variables = {
        "LISTEN": listen,
        "METRICS_LISTEN": "",
        "NATS_URL": broker.url,
        "NATS_CREDENTIALS": broker.credentials,
        "STORAGE_BYTES": str(256 * 1024**2),
        "GRACE_SECONDS": "0",
        "WORK_DIR": str(folder),
    }
    environment = os.environ | {f"ORCHESTRATOR_{name}": value for name, value in variables.items()}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "orchestrator",
        env=environment,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with grpc.aio.insecure_channel(listen) as channel:
            yield process.pid, Client(channel, listen)
    finally:
        await stop_process(process, 60)


def indexed(folder: Path) -> int:
    """Recordings that are in the file of the process."""
    with suppress(sqlite3.OperationalError):  # not made yet
        path = folder / "search" / "0" / "index.db"
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT count(*) FROM recordings").fetchone()[0])
    return 0


async def complete(client: Client, jobs: int) -> bool:
    try:
        found = await client.search("word", timeout=60)
    except grpc.aio.AioRpcError:  # it starts
        return False
    return (found.indexed, found.behind) == (jobs, 0)


@pytest.fixture
async def stored(broker: Broker) -> AsyncIterator[Bus]:
    async with connected(broker) as bus:
        yield bus


async def test_killed_in_the_middle_every_job_is_found_exactly_once(
    broker: Broker, stored: Bus, tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    texts = [f"word number {number} of many others" for number in range(SEGMENTS)]

    async def store(number: int) -> str:
        return await store_job(stored, spoken([f"only{number} here", *texts]))

    ids = [await store(number) for number in range(JOBS)]
    before = 0
    for _ in range(KILLS):
        async with orchestrator(broker, folder) as (pid, _):
            await until(lambda before=before: indexed(folder) > before)
            await kill(pid)
        before = indexed(folder)
    assert before > 0

    async with orchestrator(broker, folder) as (_, client):
        await until(lambda: complete(client, JOBS))
        found = [
            [hit.job_id for hit in (await client.search(f"only{number}")).hits]
            for number in range(JOBS)
        ]

    assert found == [[id_] for id_ in ids]
    assert indexed(folder) == JOBS
