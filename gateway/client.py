"""The orchestrator as the gateway calls it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import grpc

from mesh.channel import open_channel
from mesh.correlation import call_metadata
from mesh.errors import MeshError, UnavailableError
from mesh.reasons import Reason
from mesh.status import reason_of, to_error
from ytcaption.v1 import collection_pb2, job_pb2
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1.admin_service_pb2_grpc import AdminServiceStub
from ytcaption.v1.collection_service_pb2_grpc import CollectionServiceStub
from ytcaption.v1.pipeline_service_pb2_grpc import PipelineServiceStub

PIPELINE = "ytcaption.v1.PipelineService"
ADMIN = "ytcaption.v1.AdminService"
COLLECTIONS = "ytcaption.v1.CollectionService"
UNARY_SECONDS = 30.0
REMOVING_SECONDS = 3600.0
"""Every job is removed by itself, and there may be many."""

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True, slots=True)
class Orchestrator:
    """Stubs of all its replicas."""

    pipeline: PipelineServiceStub
    admin: AdminServiceStub
    collections: CollectionServiceStub

    async def ask(
        self,
        method: "grpc.aio.UnaryUnaryMultiCallable[RequestT, ResponseT]",
        request: RequestT,
        seconds: float = UNARY_SECONDS,
    ) -> ResponseT:
        """One answer; raises our own errors."""
        try:
            return await method(request, timeout=seconds, metadata=call_metadata())
        except grpc.aio.AioRpcError as error:
            raise understood(error) from error

    async def job(self, job_id: str) -> job_pb2.Job:
        """One job as it stands."""
        return (await self.ask(self.pipeline.GetJob, pb.GetJobRequest(job_id=job_id))).job

    async def collection(self, collection_id: str) -> collection_pb2.Collection:
        """One collection as it stands, without its members."""
        request = collection_pb.GetCollectionRequest(collection_id=collection_id)
        return (await self.ask(self.collections.GetCollection, request)).collection


def understood(error: grpc.aio.AioRpcError) -> MeshError:
    """What a failed call means; that nobody answers is said in our words, not in gRPC's."""
    gone = error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    if gone and not reason_of(error):
        return UnavailableError("the orchestrator does not answer", reason=Reason.STAGE_UNAVAILABLE)
    return to_error(error)


@asynccontextmanager
async def connected(addresses: str) -> AsyncIterator[Orchestrator]:
    """Channels that are found again by themselves whenever the orchestrator was away."""
    async with (
        open_channel(addresses, PIPELINE) as pipeline,
        open_channel(addresses, ADMIN) as admin,
        open_channel(addresses, COLLECTIONS) as collections,
    ):
        yield Orchestrator(
            PipelineServiceStub(pipeline),
            AdminServiceStub(admin),
            CollectionServiceStub(collections),
        )
