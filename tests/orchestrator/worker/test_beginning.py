"""How an attempt begins: what it writes, and who can stop it from then on."""

import asyncio
from typing import Any

import pytest

from mesh.bus import Bus
from orchestrator.jobs.resume_state import ResumeState
from orchestrator.worker import tracker
from orchestrator.worker.runner import Runner
from tests.orchestrator.conftest import Start
from tests.support.client import Client
from tests.support.polling import until
from tests.support.scripted import Script
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

BOUND = 60


async def test_the_record_of_a_job_is_written_when_it_is_accepted_begun_and_ended(
    broker_bus: Bus, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker, "SAVE_SECONDS", 3600)  # progress, if the machine is slow
    written: list[job_pb2.JobRecord] = []

    async def note(message: Any) -> None:
        written.append(job_pb2.JobRecord.FromString(message.data))

    async with broker_bus.subscribed(f"$KV.{broker_bus.names.jobs_bucket}.*", note):
        await broker_bus.client.flush()
        job = await client.finished((await client.create()).job_id)
        await until(lambda: len(written) >= 3, BOUND)

    states = [(record.job.state, record.job.attempt) for record in written]
    assert states == [
        (job_pb2.JOB_STATE_QUEUED, 0),
        (job_pb2.JOB_STATE_RUNNING, 1),
        (job_pb2.JOB_STATE_SUCCEEDED, 1),
    ]
    assert written[1].job.start_time == job.start_time


async def test_a_job_is_cancelled_in_the_moment_it_begins(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.pause_before_segment = 0
    read, begun = Runner._read_event_log, asyncio.Event()

    async def held(self: Runner, job_id: str, **named: Any) -> ResumeState:
        begun.set()
        # RUNNING in its record, but not started in its event log.
        await until(lambda: any(lease.cancel_requested.is_set() for lease in self._leases), BOUND)
        return await read(self, job_id, **named)

    monkeypatch.setattr(Runner, "_read_event_log", held)
    async with start() as client:
        job = await client.create()
        await asyncio.wait_for(begun.wait(), BOUND)
        request = pb.CancelJobRequest(job_id=job.job_id)
        ended = (await client.pipeline.CancelJob(request)).job

    assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_CANCELLED, 1)
