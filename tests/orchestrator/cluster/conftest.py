"""Three real brokers with three copies of everything, and orchestrators on them."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from mesh.bus import Bus, outlast
from mesh.status import to_error
from mesh.stores import Limits
from tests.orchestrator.conftest import OUTAGE_SECONDS, STORAGE
from tests.support.broker import Broker
from tests.support.client import Client
from tests.support.cluster import SIZE, Cluster, Node, running_cluster
from ytcaption.v1 import job_pb2

BOUND = 90
Join = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path / "cluster") as running:
        yield running


@pytest.fixture
def broker(cluster: Cluster) -> Broker:
    """What fixtures of the room above connect to."""
    process = cluster.nodes[0].process
    assert process is not None
    return Broker(cluster.url, process.pid)


@pytest.fixture
def join(start: Join) -> Join:
    """Starts orchestrators that keep three copies."""
    return partial(start, replicas=SIZE, nats_seconds=OUTAGE_SECONDS)


async def accepted(client: Client, request_id: str) -> job_pb2.Job:
    """The job; the request is repeated while streams have no leader, as callers do."""

    async def create() -> job_pb2.Job:
        try:
            return await client.create(request_id=request_id)
        except grpc.aio.AioRpcError as error:
            raise to_error(error) from error

    return await outlast(create, BOUND)


@asynccontextmanager
async def joined(where: Node | Cluster, **changes: Any) -> AsyncIterator[Bus]:
    """A connection to one broker, or to any of the cluster."""
    usual: dict[str, Any] = {
        "limits": Limits(replicas=SIZE, storage_bytes=STORAGE),
        "answer_seconds": OUTAGE_SECONDS,  # a request to a stream without a leader is lost
    }
    async with Bus.connected(where.url, **(usual | changes)) as bus:
        # A request may be lost while the stream has no leader: it has one once this is answered.
        await outlast(lambda: bus.publish(bus.names.event("first", "x"), b""), BOUND)
        yield bus


async def leader_and_follower(cluster: Cluster, bus: Bus, stream: str) -> tuple[Node, Node]:
    """The broker that leads a stream, and one that follows."""
    info = await bus.jetstream.stream_info(stream)
    assert info.cluster is not None
    leader = next(node for node in cluster.nodes if node.name == info.cluster.leader)
    return leader, next(node for node in cluster.nodes if node is not leader)
