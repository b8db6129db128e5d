"""A reset removes all of ours and nothing of others."""

import asyncio
from typing import Any

import grpc
import pytest
from nats.js import api

from mesh.addresses import free_ports
from mesh.bus import Bus
from mesh.errors import SourceRefusedError
from mesh.reasons import Reason
from mesh.status import reason_of
from orchestrator.pipeline.stages import STAGES
from tests.orchestrator.conftest import Start, connected
from tests.support.broker import Broker
from tests.support.client import Client
from tests.support.polling import until
from tests.support.scripted import SECOND, Script
from tests.support.traces import gone, traces
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import job_pb2

pytestmark = pytest.mark.usefixtures("sweeps_at_once")

ERASE = "ERASE EVERYTHING"


async def _everything(bus: Bus) -> dict[str, list[tuple[int, str, bytes]]]:
    return {
        stream: [
            (found.sequence, found.subject, found.data) async for found in bus.read(stream, ">")
        ]
        for stream in bus.names.streams()
    }


async def _reset(client: Client, **fields: Any) -> dict[str, admin_pb.ServiceReset]:
    done = await client.admin.FactoryReset(admin_pb.FactoryResetRequest(**fields))
    return {service.name: service for service in done.services}


async def test_a_reset_needs_its_exact_confirmation(client: Client) -> None:
    job = await client.create()
    for words in ("", "erase everything", "ERASE EVERYTHING "):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _reset(client, confirmation=words)
        assert reason_of(caught.value) == "CONFIRMATION_MISSING"
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert not await gone(client, job.job_id)


async def test_a_reset_removes_all_of_ours_and_nothing_of_others(
    start: Start, script: Script, broker: Broker
) -> None:
    async with (
        start(prefix="YTC_TOO") as neighbour,
        start(concurrency=1) as client,
        connected(broker) as bus,
        connected(broker, prefix="YTC_TOO") as theirs,
    ):
        await bus.jetstream.add_stream(
            api.StreamConfig(name="FOREIGN", subjects=["foreign.>", "ytcx.>"])
        )
        await bus.jetstream.publish("foreign.thing", b"precious")
        bucket = await bus.jetstream.create_key_value(api.KeyValueConfig(bucket="THEIRS"))
        await bucket.put("key", b"value")
        spared = await neighbour.upload(SECOND, file_name="n.wav", request_id="theirs")
        await neighbour.finished(spared.job_id)
        await until(lambda: _is_idle(theirs))
        before = await _everything(theirs)
        made = [await client.upload(SECOND, file_name="x.wav", request_id="mine")]
        await client.finished(made[0].job_id)
        script.failures = [SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)]
        made.append(await client.create())
        await client.finished(made[1].job_id)
        await until(lambda: _is_idle(bus))
        script.pause_before_segment = 2
        made += [await client.create() for _ in range(3)]
        await script.until_paused()

        counted = await _reset(client, confirmation=ERASE, dry_run=True)
        states = sorted([(await client.job(job.job_id)).state for job in made[2:]])
        assert states == [job_pb2.JOB_STATE_QUEUED] * 2 + [job_pb2.JOB_STATE_RUNNING]
        done = await _reset(client, confirmation=ERASE)

        own = done["orchestrator"]
        assert (own.done, own.error) == (True, "")
        assert (own.jobs_removed, own.files_removed, own.tasks_purged) == (5, 3, 3)
        assert counted["orchestrator"].jobs_removed == 5
        assert counted["orchestrator"].files_removed == 3
        assert counted["orchestrator"].tasks_purged == 3
        assert own.bytes_removed > len(SECOND)
        await asyncio.wait_for(script.stopped.wait(), 60)
        for job in made:
            assert await traces(bus, job.job_id) == []
        assert await _left(bus) == []
        assert await _everything(theirs) == before
        assert await neighbour.text(spared.job_id) == "word 1\n"
        assert (await bus.jetstream.stream_info("FOREIGN")).state.messages == 1
        assert (await bucket.get("key")).value == b"value"
        script.pause_before_segment = None
        again = await client.create(request_id="mine")
        assert (await client.finished(again.job_id)).state == job_pb2.JOB_STATE_SUCCEEDED


async def _is_idle(bus: Bus) -> bool:
    """A work item outlives the end of its job by a moment."""
    return (await bus.jetstream.stream_info(bus.names.work_stream)).state.messages == 0


async def _left(bus: Bus) -> list[str]:
    return [
        stored.subject
        for stream in bus.names.streams()
        async for stored in bus.read(stream, ">")
        if not stored.deleted
    ]


async def test_a_reset_asks_every_replica_of_every_stage_and_reports_who_is_down(
    start: Start, script: Script
) -> None:
    script.purge_files, script.purge_bytes = 2, 70
    unreachable = f"127.0.0.1:{free_ports(1)[0]}"
    async with start() as client:
        whole = await _reset(client, confirmation=ERASE)
    async with start(transcriber=unreachable) as client:
        partly = await _reset(client, confirmation=ERASE, dry_run=True)

    names = [stage.name for stage in STAGES]
    assert list(whole) == ["orchestrator", *names]
    for name in names:
        assert (whole[name].done, whole[name].files_removed) == (True, 2)
        assert whole[name].bytes_removed == 70
    assert script.purges == [False] * len(names) + [True] * (len(names) - 1)
    assert partly["downloader"].done
    assert not partly["transcriber"].done
    assert unreachable in partly["transcriber"].error


async def test_a_job_accepted_during_a_reset_runs_or_is_gone_but_never_hangs(
    start: Start,
) -> None:
    async with start() as client:
        for _ in range(10):
            await client.create()
        over = asyncio.Event()
        made: list[str] = []

        async def submit() -> None:
            while not over.is_set():
                made.append((await client.upload(SECOND, file_name="x.wav")).job_id)

        submitting = asyncio.create_task(submit())
        done = await _reset(client, confirmation=ERASE)
        over.set()
        await submitting

        assert done["orchestrator"].done, done["orchestrator"].error
        later = await client.upload(SECOND, file_name="x.wav")
        for job_id in [*made, later.job_id]:
            if not await gone(client, job_id):
                ended = await asyncio.wait_for(client.finished(job_id), 120)
                assert ended.state == job_pb2.JOB_STATE_SUCCEEDED
        assert not await gone(client, later.job_id)
