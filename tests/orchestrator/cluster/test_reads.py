"""Reads that decide are current, although replicas lag."""

import asyncio
from typing import Any

import pytest
from nats.js.errors import NotFoundError

from mesh.bus import Bus, outlast
from mesh.errors import UnavailableError
from orchestrator.jobs.store import JobStore
from tests.orchestrator.cluster.conftest import joined, leader_and_follower
from tests.support.cluster import Cluster
from ytcaption.v1 import job_pb2

JOB = "01a1e222-262d-7292-9757-501b145b41af"
SUBJECT = f"ytc.events.{JOB}.segment_settled"
BOUND = 60


async def test_a_read_through_a_replica_that_lags_is_whole(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with joined(cluster) as any_bus:
        stream = any_bus.names.events_stream
        leader, follower = await leader_and_follower(cluster, any_bus, stream)
        async with joined(leader) as writer, joined(follower) as reader:
            await writer.publish(SUBJECT, b"0")
            cluster.isolate(follower.number)
            for number in range(1, 10):
                await writer.publish(SUBJECT, str(number).encode())
            served = _after_first_batch(reader, monkeypatch)
            reading = asyncio.create_task(_read(reader))
            await asyncio.wait_for(served.wait(), BOUND)
            cluster.heal()
            async with asyncio.timeout(BOUND):
                found = await reading

    assert found == [str(number).encode() for number in range(10)]


async def test_the_leader_has_what_a_replica_lacks(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever replica the broker chooses: here all of them lag by all but three messages."""
    async with joined(cluster) as bus:
        batch = bus._batch

        async def lagging(*given: Any) -> Any:
            return [stored for stored in await batch(*given) if stored.sequence <= 3]

        monkeypatch.setattr(bus, "_batch", lagging)
        for number in range(10):
            await bus.publish(SUBJECT, str(number).encode())

        assert await _read(bus) == [str(number).encode() for number in range(10)]


async def test_a_job_just_accepted_is_found_although_replicas_lack_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with joined(cluster) as accepting, joined(cluster) as watching:
        get_msg = watching.jetstream.get_msg

        async def lagging(*given: Any, direct: bool = False, **named: Any) -> Any:
            if direct:
                raise NotFoundError
            return await get_msg(*given, **named)

        monkeypatch.setattr(watching.jetstream, "get_msg", lagging)
        await JobStore(accepting).create(job_pb2.JobRecord(job=job_pb2.Job(job_id=JOB)))

        assert (await JobStore(watching).get(JOB)).job.job_id == JOB


async def test_a_leader_that_was_cut_off_does_not_deny_a_job_accepted_elsewhere(
    cluster: Cluster,
) -> None:
    async with joined(cluster) as any_bus:
        stream = f"KV_{any_bus.names.jobs_bucket}"
        leader, other = await leader_and_follower(cluster, any_bus, stream)
        async with (
            joined(other, answer_seconds=1) as accepting,
            joined(leader, answer_seconds=1) as asking,
        ):
            cluster.isolate(leader.number)
            # It answers reads as the leader for ten seconds or more. It cannot know yet whether
            # the others accept the job, and it does not know later that they did.
            with pytest.raises(UnavailableError):
                await JobStore(asking).get(JOB)
            record = job_pb2.JobRecord(job=job_pb2.Job(job_id=JOB))
            await outlast(lambda: JobStore(accepting).create(record), BOUND)
            with pytest.raises(UnavailableError):
                await JobStore(asking).get(JOB)
            cluster.heal()

            found = await outlast(lambda: JobStore(asking).get(JOB), BOUND)

    assert found.job.job_id == JOB


def _after_first_batch(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once a replica has answered with what it has, or not at all."""
    served, batch = asyncio.Event(), bus._batch

    async def noted(*given: Any) -> Any:
        found = await batch(*given)
        served.set()
        return found

    monkeypatch.setattr(bus, "_batch", noted)
    return served


async def _read(bus: Bus) -> list[bytes]:
    return [stored.data async for stored in bus.read(bus.names.events_stream, SUBJECT)]
