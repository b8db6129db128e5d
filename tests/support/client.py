"""A gRPC client of the orchestrator with one method for each common step."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import grpc
import pytest

from mesh.frames import truthful
from mesh.status import reason_of
from ytcaption.v1 import admin_service_pb2_grpc as admin_rpc
from ytcaption.v1 import auth_service_pb2_grpc as auth_rpc
from ytcaption.v1 import collection_service_pb2_grpc as collection_rpc
from ytcaption.v1 import event_pb2, job_pb2, media_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import pipeline_service_pb2_grpc as rpc
from ytcaption.v1 import quota_service_pb2_grpc as quota_rpc
from ytcaption.v1 import search_service_pb2 as search_pb
from ytcaption.v1 import search_service_pb2_grpc as search_rpc

URL = "http://example.test/talk.mp3"


def _calls_of(kind: str) -> Any:
    def make(self: "_WithToken", *method: Any, **serializers: Any) -> Callable[..., Any]:
        multi_callable = getattr(self.channel, kind)(*method, **serializers)
        metadata = (("authorization", f"Bearer {self.token}"),)
        return lambda *request, **options: multi_callable(
            *request, **({"metadata": metadata} | options)
        )

    return make


class _WithToken:
    """Stands in for a channel; its calls carry a token."""

    unary_unary = _calls_of("unary_unary")
    unary_stream = _calls_of("unary_stream")
    stream_unary = _calls_of("stream_unary")
    stream_stream = _calls_of("stream_stream")

    def __init__(self, channel: grpc.aio.Channel, token: str) -> None:
        self.channel = channel
        self.token = token


class Client:
    """The stubs of one channel."""

    def __init__(self, channel: grpc.aio.Channel, address: str = "") -> None:
        self.channel = channel
        self.address = address
        self.auth = auth_rpc.AuthServiceStub(channel)
        self.pipeline = rpc.PipelineServiceStub(channel)
        self.collections = collection_rpc.CollectionServiceStub(channel)
        self.admin = admin_rpc.AdminServiceStub(channel)
        self.quotas = quota_rpc.QuotaServiceStub(channel)
        self.searching = search_rpc.SearchServiceStub(channel)

    def with_token(self, token: str) -> "Client":
        """The same server, called with a token."""
        channel = cast("grpc.aio.Channel", _WithToken(self.channel, token))
        return Client(channel, self.address)

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

    async def search(
        self, query: str, *, timeout: float | None = None, **fields: Any
    ) -> search_pb.SearchResponse:
        """One page of what is found."""
        request = search_pb.SearchRequest(query=query, **fields)
        return await self.searching.Search(request, timeout=timeout)

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
