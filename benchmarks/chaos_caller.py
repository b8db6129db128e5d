"""A caller who does not give up: asks again with the same word, watches on from where it was."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import grpc

from mesh.frames import MAX_FRAME_BYTES, truthful
from ytcaption.v1 import event_pb2, job_pb2, media_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1.pipeline_service_pb2_grpc import PipelineServiceStub

T = TypeVar("T")

AGAIN_SECONDS = 0.3
CALL_SECONDS = 20
PASSING = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        # How a server killed in the middle of a call may look from here.
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
    }
)


async def stubbornly(act: Callable[[], Awaitable[T]]) -> T:
    """Repeats what the server could not answer."""
    while True:
        try:
            return await act()
        except grpc.aio.AioRpcError as error:
            if error.code() not in PASSING:
                raise
        await asyncio.sleep(AGAIN_SECONDS)


@dataclass(slots=True)
class Seen:
    """The updates a watcher received over all its connections."""

    sequences: list[int] = field(default_factory=list)
    segments: list[int] = field(default_factory=list)
    cuts: int = 0

    @property
    def last(self) -> int:
        """Where to go on."""
        return self.sequences[-1] if self.sequences else 0

    def note(self, update: pb.WatchJobResponse) -> bool:
        """Takes one update in; True if it was the last."""
        if update.sequence:
            self.sequences.append(update.sequence)
        if update.event.HasField("segment_settled"):
            self.segments.append(update.event.segment_settled.segment.index)
        return bool(update.event.type == event_pb2.EVENT_TYPE_JOB_FINISHED)


class Caller:
    """Calls one server that keeps dying."""

    def __init__(self, pipeline: PipelineServiceStub) -> None:
        self._pipeline = pipeline

    async def submit_url(self, url: str, request_id: str) -> job_pb2.Job:
        """A job by address."""
        request = pb.CreateJobRequest(source_url=url, request_id=request_id, force=True)

        async def ask() -> job_pb2.Job:
            return (await self._pipeline.CreateJob(request, timeout=CALL_SECONDS)).job

        return await stubbornly(ask)

    async def submit_file(self, path: Path, request_id: str) -> job_pb2.Job:
        """A job by upload."""
        data = await asyncio.to_thread(path.read_bytes)

        async def frames() -> AsyncIterator[pb.CreateJobFromUploadRequest]:
            start = pb.UploadStart(
                file_name=path.name, request_id=request_id, size_bytes=len(data), force=True
            )
            yield pb.CreateJobFromUploadRequest(start=start)
            for begin in range(0, len(data), MAX_FRAME_BYTES):
                chunk = data[begin : begin + MAX_FRAME_BYTES]
                yield pb.CreateJobFromUploadRequest(chunk=chunk)

        async def ask() -> job_pb2.Job:
            call: Any = self._pipeline.CreateJobFromUpload(frames(), timeout=CALL_SECONDS)
            answer: pb.CreateJobFromUploadResponse = await truthful(call)
            return answer.job

        return await stubbornly(ask)

    async def watch(self, job_id: str, seen: Seen) -> None:
        """Follows the job to its end, through every cut."""
        while not await stubbornly(lambda: self._watch_once(job_id, seen)):
            seen.cuts += 1
            await asyncio.sleep(AGAIN_SECONDS)

    async def _watch_once(self, job_id: str, seen: Seen) -> bool:
        request = pb.WatchJobRequest(job_id=job_id, after_sequence=seen.last)
        call = self._pipeline.WatchJob(request)
        try:
            async for update in call:
                if seen.note(update):
                    return True
        except grpc.aio.AioRpcError as error:
            if error.code() not in PASSING:
                raise
        finally:
            call.cancel()
        return False

    async def job(self, job_id: str) -> job_pb2.Job | None:
        """The job record; None if the server does not know it."""
        request = pb.GetJobRequest(job_id=job_id)

        async def ask() -> job_pb2.Job | None:
            try:
                return (await self._pipeline.GetJob(request, timeout=CALL_SECONDS)).job
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.NOT_FOUND:
                    return None
                raise

        return await stubbornly(ask)

    async def event_log(self, job_id: str) -> list[pb.WatchJobResponse]:
        """Every stored event of a job that has ended."""

        async def ask() -> list[pb.WatchJobResponse]:
            request = pb.WatchJobRequest(job_id=job_id)
            call = self._pipeline.WatchJob(request, timeout=CALL_SECONDS)
            try:
                return [update async for update in call if update.sequence]
            finally:
                call.cancel()

        return await stubbornly(ask)

    async def transcript(self, job_id: str) -> dict[str, Any]:
        """Text and times, as a caller gets them."""
        request = pb.GetCaptionsRequest(job_id=job_id, format=media_pb2.CAPTION_FORMAT_JSON)

        async def ask() -> bytes:
            return (await self._pipeline.GetCaptions(request, timeout=CALL_SECONDS)).content

        found: dict[str, Any] = json.loads(await stubbornly(ask))
        return found

    async def count(self) -> int:
        """How many jobs there are in all."""

        async def ask() -> int:
            request = pb.ListJobsRequest(page_size=1)
            return (await self._pipeline.ListJobs(request, timeout=CALL_SECONDS)).total_size

        return await stubbornly(ask)
