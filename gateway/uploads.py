"""Files on their way from a client to the orchestrator: in frames, as they come, never held."""

import asyncio
from collections.abc import AsyncIterator

import grpc

from gateway.backend import Orchestrator, understood
from mesh.calls import truthful
from mesh.correlation import call_metadata
from mesh.frames import cut
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb


async def send(
    orchestrator: Orchestrator, start: pb.UploadStart, body: AsyncIterator[bytes]
) -> job_pb2.Job:
    """Returns once the file and the job are durable; a client that goes away ends the call."""
    call = truthful(orchestrator.pipeline.CreateJobFromUpload(metadata=call_metadata()))
    try:
        await _write(call, start, body)
        return (await call).job
    except grpc.aio.AioRpcError as error:
        raise understood(error) from error
    finally:
        call.cancel()


async def _write(
    call: "grpc.aio.StreamUnaryCall[pb.CreateJobFromUploadRequest, pb.CreateJobFromUploadResponse]",
    start: pb.UploadStart,
    body: AsyncIterator[bytes],
) -> None:
    try:
        await call.write(pb.CreateJobFromUploadRequest(start=start))
        async for piece in body:
            for chunk in cut(piece):
                await call.write(pb.CreateJobFromUploadRequest(chunk=chunk))
        await call.done_writing()
    except asyncio.InvalidStateError:
        # It was refused while we were reading; the call itself says why.
        return
