"""A runner that lost its job while it read the event log appends nothing to it."""

from typing import Any

import pytest

from orchestrator.jobs.completion import end_job
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.lease import Lease
from orchestrator.jobs.resume_state import ResumeState, read_resume_state
from orchestrator.worker.runner import Runner
from tests.orchestrator.conftest import Start
from ytcaption.v1 import event_pb2, job_pb2


async def test_a_job_that_another_runner_ended_meanwhile_keeps_its_end(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, taken = Runner._read_event_log, False

    async def overtaken(self: Runner, job_id: str, **named: Any) -> ResumeState:
        nonlocal taken
        if not taken:
            taken = True
            storage = self._storage
            lease = Lease(storage.jobs, await storage.jobs.get(job_id))
            await lease.take()
            state = await read_resume_state(storage.event_logs, job_id)
            event_log = EventLogWriter(storage.bus, lease.job, state.last_sequence)
            await end_job(storage, lease, event_log, job_pb2.JOB_STATE_SUCCEEDED)
        return await read(self, job_id, **named)

    monkeypatch.setattr(Runner, "_read_event_log", overtaken)
    async with start() as client:
        job = await client.create()
        ended = await client.finished(job.job_id)
        events = [update.event async for update in _log(client, job.job_id)]

    assert ended.attempt == 2
    assert events[-1].type == event_pb2.EVENT_TYPE_JOB_FINISHED
    accepted = [one for one in events if one.type == event_pb2.EVENT_TYPE_JOB_ACCEPTED]
    assert len(accepted) == 1


async def _log(client: Any, job_id: str) -> Any:
    from ytcaption.v1 import pipeline_service_pb2 as pb

    call = client.pipeline.WatchJob(pb.WatchJobRequest(job_id=job_id), timeout=120)
    async for update in call:
        if update.sequence:
            yield update
