"""A fake orchestrator that sends many updates, to test backpressure and slow clients."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from mesh.server import RunningServer, Service, running_server
from ytcaption.v1 import event_pb2, job_pb2, media_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import pipeline_service_pb2_grpc as rpc

TEXT = "word " * 4000

if TYPE_CHECKING:  # to mypy a servicer without all its rpcs is abstract; at run time it is not
    Servicer = object
else:
    Servicer = rpc.PipelineServiceServicer


class BusyJob(Servicer):
    """One job whose event log has `events` segments; with `hold` it never ends."""

    def __init__(self, events: int, *, hold: bool = False) -> None:
        self._events = events
        self._hold = hold
        self.sent = 0
        self.watches = self.watching = 0

    async def GetJob(self, request: pb.GetJobRequest, context: Any) -> pb.GetJobResponse:  # noqa: N802
        return pb.GetJobResponse(job=_job(job_pb2.JOB_STATE_RUNNING))

    async def GetCaptions(  # noqa: N802
        self, request: pb.GetCaptionsRequest, context: Any
    ) -> pb.GetCaptionsResponse:
        content = b'{"text": "", "language": "en", "segments": [], "cues": []}'
        return pb.GetCaptionsResponse(content=content)

    async def WatchJob(  # noqa: N802
        self, request: pb.WatchJobRequest, context: Any
    ) -> AsyncIterator[pb.WatchJobResponse]:
        self.watches += 1
        self.watching += 1
        try:
            yield pb.WatchJobResponse(job=_job(job_pb2.JOB_STATE_RUNNING))
            for number in range(request.after_sequence + 1, self._events + 1):
                yield pb.WatchJobResponse(sequence=number, event=self._event(number))
                self.sent = number
            if self._hold:
                await asyncio.Event().wait()
        finally:
            self.watching -= 1

    def _event(self, number: int) -> event_pb2.Event:
        if number == self._events and not self._hold:
            finished = event_pb2.JobFinished(job=_job(job_pb2.JOB_STATE_CANCELLED))
            return event_pb2.Event(type=event_pb2.EVENT_TYPE_JOB_FINISHED, job_finished=finished)
        segment = media_pb2.Segment(index=number - 1, text=TEXT)
        settled = event_pb2.SegmentSettled(segment=segment)
        return event_pb2.Event(type=event_pb2.EVENT_TYPE_SEGMENT_SETTLED, segment_settled=settled)


class WebhookRecorder(Servicer):
    """Accepts every job, and records its webhook URL."""

    def __init__(self) -> None:
        self.webhook_urls: list[str] = []

    async def CreateJob(  # noqa: N802
        self, request: pb.CreateJobRequest, context: Any
    ) -> pb.CreateJobResponse:
        self.webhook_urls.append(request.webhook_url)
        return pb.CreateJobResponse(job=_job(job_pb2.JOB_STATE_QUEUED))

    async def CreateJobFromUpload(  # noqa: N802
        self, requests: AsyncIterator[pb.CreateJobFromUploadRequest], context: Any
    ) -> pb.CreateJobFromUploadResponse:
        async for request in requests:
            if request.HasField("start"):
                self.webhook_urls.append(request.start.webhook_url)
        return pb.CreateJobFromUploadResponse(job=_job(job_pb2.JOB_STATE_QUEUED))

    async def GetJob(self, request: pb.GetJobRequest, context: Any) -> pb.GetJobResponse:  # noqa: N802
        job = _job(job_pb2.JOB_STATE_QUEUED)
        job.webhook_url = self.webhook_urls[-1]
        return pb.GetJobResponse(job=job)


class WatchedList(Servicer):
    """A list of `jobs` jobs; `show` changes its total."""

    def __init__(self, jobs: int = 0) -> None:
        job = _job(job_pb2.JOB_STATE_RUNNING)
        self._page = pb.WatchJobsResponse(jobs=[job] * jobs)
        self._changed = asyncio.Condition()
        self.watches = self.watching = 0

    async def show(self, total: int) -> None:
        """Sends the page with another total to every watch."""
        async with self._changed:
            page = pb.WatchJobsResponse(jobs=self._page.jobs, total_size=total)
            self._page = page
            self._changed.notify_all()

    async def WatchJobs(  # noqa: N802
        self, request: pb.WatchJobsRequest, context: Any
    ) -> AsyncIterator[pb.WatchJobsResponse]:
        self.watches += 1
        self.watching += 1
        try:
            while True:
                page = self._page
                yield page
                async with self._changed:
                    while self._page is page:
                        await self._changed.wait()
        finally:
            self.watching -= 1


def _job(state: "job_pb2.JobState.ValueType") -> job_pb2.Job:
    return job_pb2.Job(job_id="one", state=state)


class RunningAddress:
    """Runs a server; yields its address rather than the server."""

    def __init__(self, server: AbstractAsyncContextManager[RunningServer]) -> None:
        self._server = server

    async def __aenter__(self) -> str:
        return f"127.0.0.1:{(await self._server.__aenter__()).port}"

    async def __aexit__(self, *error: Any) -> None:
        await self._server.__aexit__(*error)


def serving(servicer: Servicer, listen: str = "127.0.0.1:0") -> RunningAddress:
    """Serves a PipelineService on loopback; yields the address."""
    service = Service.of(
        pb.DESCRIPTOR.services_by_name["PipelineService"],
        rpc.add_PipelineServiceServicer_to_server,
        servicer,
    )
    return serving_all(service, listen=listen)


def serving_all(*services: Service, listen: str = "127.0.0.1:0") -> RunningAddress:
    """Serves any services on loopback; yields the address."""
    return RunningAddress(running_server(list(services), listen, grace_seconds=0))
