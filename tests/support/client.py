"""A gRPC client of the orchestrator with one method for each common step."""

import json
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import grpc
import pytest

from mesh.frames import truthful
from mesh.status import reason_of
from ytcaption.v1 import admin_service_pb2_grpc as admin_rpc
from ytcaption.v1 import collection_service_pb2_grpc as collection_rpc
from ytcaption.v1 import event_pb2, job_pb2, media_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import pipeline_service_pb2_grpc as rpc

URL = "http://example.test/talk.mp3"


class Client:
    """The stubs of one channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.pipeline = rpc.PipelineServiceStub(channel)
        self.collections = collection_rpc.CollectionServiceStub(channel)
        self.admin = admin_rpc.AdminServiceStub(channel)

    async def create(self, url: str = URL, **fields: Any) -> job_pb2.Job:
        # Most tests need a run of their own, not a deduplicated one.
        request = pb.CreateJobRequest(source_url=url, **({"force": True} | fields))
        return (await self.pipeline.CreateJob(request)).job

    async def job(self, job_id: str) -> job_pb2.Job:
        return (await self.pipeline.GetJob(pb.GetJobRequest(job_id=job_id))).job

    async def delete(self, job_id: str) -> None:
        await self.pipeline.DeleteJob(pb.DeleteJobRequest(job_id=job_id))

    async def watch(self, job_id: str, after: int = 0) -> AsyncIterator[pb.WatchJobResponse]:
        request = pb.WatchJobRequest(job_id=job_id, after_sequence=after)
        call = self.pipeline.WatchJob(request)
        try:
            async for response in call:
                yield response
        finally:
            call.cancel()

    async def events(self, job_id: str) -> list[event_pb2.Event]:
        """The whole event log; returns when the job has ended."""
        return [seen.event async for seen in self.watch(job_id) if seen.HasField("event")]

    async def finished(self, job_id: str) -> job_pb2.Job:
        """Waits for the end; returns the job as it ended."""
        return (await self.events(job_id))[-1].job_finished.job

    async def text(self, job_id: str) -> str:
        """The transcript, one segment a line."""
        request = pb.GetCaptionsRequest(job_id=job_id, format=media_pb2.CAPTION_FORMAT_JSON)
        found = json.loads((await self.pipeline.GetCaptions(request)).content)
        return "".join(f"{segment['text']}\n" for segment in found["segments"])

    async def upload(self, *chunks: bytes, **start: Any) -> job_pb2.Job:
        async def frames() -> AsyncIterator[pb.CreateJobFromUploadRequest]:
            opening = pb.UploadStart(**({"force": True} | start))
            yield pb.CreateJobFromUploadRequest(start=opening)
            for chunk in chunks:
                yield pb.CreateJobFromUploadRequest(chunk=chunk)

        return (await truthful(self.pipeline.CreateJobFromUpload(frames()))).job


async def refusal(call: Awaitable[object]) -> str:
    """The reason with which the call is refused; fails if it succeeds."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return reason_of(caught.value)
