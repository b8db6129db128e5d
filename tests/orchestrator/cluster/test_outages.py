"""Elections and lost quorums are waited out, said in time, and end no orchestrator."""

import asyncio
from typing import Any

import grpc
import pytest

from mesh.bus import Bus, outlast
from mesh.status import reason_of
from mesh.stores import make_streams
from orchestrator.queue import capacity
from orchestrator.settings import Settings
from tests.orchestrator.cluster.conftest import BOUND, Join, accepted, joined
from tests.support.client import URL, Client
from tests.support.cluster import Cluster, Node
from tests.support.polling import until
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

USAGE_SECONDS = capacity.TIMEOUT_SECONDS
"""As it is without the fixture `patient`."""
SUBJECT = "ytc.events.one.kind"


async def test_an_orchestrator_that_starts_without_a_quorum_waits_for_it(
    cluster: Cluster, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    async def counted(*given: Any) -> None:
        nonlocal tries
        tries += 1
        await make_streams(*given)

    async def run() -> job_pb2.Job:
        async with join(nats_seconds=2) as client:
            return await client.finished((await accepted(client, "first")).job_id)

    monkeypatch.setattr("mesh.bus.make_streams", counted)
    await asyncio.gather(*(node.kill() for node in cluster.nodes[1:]))
    running = asyncio.create_task(run())
    await until(lambda: tries > 1 or running.done(), BOUND)
    await asyncio.gather(*(node.start() for node in cluster.nodes[1:]))
    async with asyncio.timeout(BOUND):
        job = await running

    assert job.state == job_pb2.JOB_STATE_SUCCEEDED


async def test_without_a_quorum_a_job_is_refused_at_once_and_later_accepted_again(
    cluster: Cluster, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "TIMEOUT_SECONDS", USAGE_SECONDS)
    async with join(accept_seconds=0.5, nats_seconds=10) as client:
        await client.finished((await accepted(client, "first")).job_id)
        await asyncio.gather(*(node.kill() for node in cluster.nodes[1:]))
        # The deadline is the bound: after the broker's own time-out it would be too late.
        for request_id in ("", "named"):
            assert await _refused(client, request_id) == "STORAGE_UNAVAILABLE"
        await asyncio.gather(*(node.start() for node in cluster.nodes[1:]))
        async with asyncio.timeout(BOUND):
            job = await client.finished((await accepted(client, "later")).job_id)

    assert job.state == job_pb2.JOB_STATE_SUCCEEDED


def test_a_refusal_for_want_of_a_quorum_takes_less_than_two_seconds() -> None:
    assert Settings().accept_seconds + USAGE_SECONDS < 2


async def _refused(client: Client, request_id: str) -> str:
    request = pb.CreateJobRequest(source_url=URL, request_id=request_id, force=True)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.pipeline.CreateJob(request, timeout=8)
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    return reason_of(caught.value)


@pytest.mark.parametrize("fault", ["frozen", "cut off"])
async def test_a_broker_that_answers_nothing_is_left_for_another(
    cluster: Cluster, fault: str
) -> None:
    async with joined(cluster, answer_seconds=1) as bus:
        await outlast(lambda: bus.publish(SUBJECT, b"before"), BOUND)
        node = _node_of(cluster, bus)
        if fault == "frozen":
            node.freeze()
        else:
            cluster.isolate(node.number)
        async with asyncio.timeout(BOUND):
            await outlast(lambda: bus.publish(SUBJECT, b"after"), BOUND)

        assert _node_of(cluster, bus) is not node


def _node_of(cluster: Cluster, bus: Bus) -> Node:
    url = bus.client.connected_url
    assert url is not None
    return next(node for node in cluster.nodes if node.port == url.port)
