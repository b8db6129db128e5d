"""gRPC client of the orchestrator: stubs, deadlines and error translation."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import grpc

from mesh.channel import open_channel
from mesh.correlation import call_metadata, new_id
from mesh.errors import MeshError, UnavailableError
from mesh.frames import cut, truthful
from mesh.reasons import Reason
from mesh.status import reason_of, to_error
from mesh.tls import PLAIN, Tls
from mesh.watching import cancelled_after
from ytcaption.v1 import collection_pb2, job_pb2
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1.admin_service_pb2_grpc import AdminServiceStub
from ytcaption.v1.auth_service_pb2_grpc import AuthServiceStub
from ytcaption.v1.collection_service_pb2_grpc import CollectionServiceStub
from ytcaption.v1.pipeline_service_pb2_grpc import PipelineServiceStub
from ytcaption.v1.quota_service_pb2_grpc import QuotaServiceStub
from ytcaption.v1.search_service_pb2_grpc import SearchServiceStub

PIPELINE = "ytcaption.v1.PipelineService"
ADMIN = "ytcaption.v1.AdminService"
COLLECTIONS = "ytcaption.v1.CollectionService"
AUTH = "ytcaption.v1.AuthService"
QUOTAS = "ytcaption.v1.QuotaService"
SEARCH = "ytcaption.v1.SearchService"
UNARY_SECONDS = 30.0
DELETION_SECONDS = 3600.0
"""Deadline of bulk deletions: jobs are deleted one by one, and there may be many."""

RETRY_SECONDS = 5.0
"""How long a creation is repeated while the orchestrator is unavailable."""
PAUSE_SECONDS = 0.2
"""Between two calls; each of them backs off by itself, as the channel's retry policy says."""


RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
CreationT = TypeVar(
    "CreationT", pb.CreateJobRequest, pb.RepeatJobRequest, collection_pb.CreateCollectionRequest
)


@dataclass(frozen=True, slots=True)
class Orchestrator:
    """Stubs of the orchestrator's services, balanced over its replicas."""

    pipeline: PipelineServiceStub
    admin: AdminServiceStub
    collections: CollectionServiceStub
    auth: AuthServiceStub
    quotas: QuotaServiceStub
    search: SearchServiceStub

    async def job(self, job_id: str) -> job_pb2.Job:
        """Fetches a job."""
        return (await call(self.pipeline.GetJob, pb.GetJobRequest(job_id=job_id))).job

    async def collection(self, collection_id: str) -> collection_pb2.Collection:
        """Fetches a collection without its members."""
        request = collection_pb.GetCollectionRequest(collection_id=collection_id)
        return (await call(self.collections.GetCollection, request)).collection

    async def upload(self, start: pb.UploadStart, body: AsyncIterator[bytes]) -> job_pb2.Job:
        """Streams a file without buffering it; returns once the file and the job are durable.

        Cancelled with its task, so a client that disconnects ends the call.
        """
        start.request_id = start.request_id or new_id()
        try:
            return await self._upload(start, body)
        except UnavailableError:
            # The job may exist: its request_id alone finds it then, and creates nothing otherwise.
            with suppress(MeshError):
                return await _repeated(lambda: self._upload(start, _nothing()))
            raise

    async def _upload(self, start: pb.UploadStart, body: AsyncIterator[bytes]) -> job_pb2.Job:
        upload = truthful(self.pipeline.CreateJobFromUpload(metadata=call_metadata()))
        with cancelled_after(upload):
            try:
                await _write(upload, start, body)
                return (await upload).job
            except grpc.aio.AioRpcError as error:
                raise mesh_error(error) from error


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield


async def call(
    method: "grpc.aio.UnaryUnaryMultiCallable[RequestT, ResponseT]",
    request: RequestT,
    seconds: float = UNARY_SECONDS,
) -> ResponseT:
    """Makes one unary call; raises a MeshError if it fails."""
    try:
        return await method(request, timeout=seconds, metadata=call_metadata())
    except grpc.aio.AioRpcError as error:
        raise mesh_error(error) from error


async def create(
    method: "grpc.aio.UnaryUnaryMultiCallable[CreationT, ResponseT]",
    request: CreationT,
    seconds: float = UNARY_SECONDS,
) -> ResponseT:
    """Makes a call that creates something; repeats it while the orchestrator is unavailable.

    Its request_id, made here if the client sends none, keeps a repeated call from creating twice.
    """
    request.request_id = request.request_id or new_id()
    return await _repeated(partial(call, method, request, seconds))


async def _repeated(act: Callable[[], Awaitable[ResponseT]]) -> ResponseT:
    until = monotonic() + RETRY_SECONDS
    while True:
        try:
            return await act()
        except UnavailableError:
            if monotonic() >= until:
                raise
        await asyncio.sleep(PAUSE_SECONDS)


async def _write(
    call: "grpc.aio.StreamUnaryCall[pb.CreateJobFromUploadRequest, pb.CreateJobFromUploadResponse]",
    start: pb.UploadStart,
    body: AsyncIterator[bytes],
) -> None:
    try:
        await call.write(pb.CreateJobFromUploadRequest(start=start))
        async for data in body:
            for chunk in cut(data):
                await call.write(pb.CreateJobFromUploadRequest(chunk=chunk))
        await call.done_writing()
    except asyncio.InvalidStateError:
        # The orchestrator rejected the upload before its end; awaiting the call raises the reason.
        return


async def frames(
    call: "grpc.aio.UnaryStreamCall[Any, ResponseT]",
) -> AsyncGenerator[ResponseT, None]:
    """Yields the responses of a server stream; cancels the call when it is closed early."""
    with cancelled_after(call):
        try:
            async for frame in call:
                yield frame
        except grpc.aio.AioRpcError as error:
            raise mesh_error(error) from error


def mesh_error(error: grpc.aio.AioRpcError) -> MeshError:
    """Translates a failed call; a connection failure becomes one short sentence."""
    unreachable = error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    if unreachable and not reason_of(error):
        return UnavailableError("the orchestrator does not answer", reason=Reason.STAGE_UNAVAILABLE)
    return to_error(error)


@asynccontextmanager
async def connect(addresses: str, tls: Tls = PLAIN) -> AsyncIterator[Orchestrator]:
    """Opens channels that reconnect by themselves after an outage of the orchestrator."""
    async with (
        open_channel(addresses, PIPELINE, tls=tls) as pipeline,
        open_channel(addresses, ADMIN, tls=tls) as admin,
        open_channel(addresses, COLLECTIONS, tls=tls) as collections,
        open_channel(addresses, AUTH, tls=tls) as auth,
        open_channel(addresses, QUOTAS, tls=tls) as quotas,
        open_channel(addresses, SEARCH, tls=tls) as search,
    ):
        yield Orchestrator(
            PipelineServiceStub(pipeline),
            AdminServiceStub(admin),
            CollectionServiceStub(collections),
            AuthServiceStub(auth),
            QuotaServiceStub(quotas),
            SearchServiceStub(search),
        )
