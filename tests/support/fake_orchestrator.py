"""A PipelineService that follows a script, for a real socket; an AdminService beside it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mesh.errors import MeshError, NotFoundError
from mesh.reasons import Reason
from mesh.server import Service, running_server
from tests.cli.scripted_admin import ScriptedAdmin
from tests.cli.scripted_collections import ScriptedCollections
from tests.cli.stories import FAILED, JOB_ID, STORY, ended_job
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import admin_service_pb2_grpc as admin_rpc
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import collection_service_pb2_grpc as collection_rpc
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import pipeline_service_pb2_grpc as rpc


class ScriptedPipeline(rpc.PipelineServiceServicer):
    """Tells its story, and remembers what it was asked."""

    def __init__(self, story: list[pb.WatchJobResponse] | None = None) -> None:
        self.story = STORY if story is None else story
        self.cut_after: list[int] = []
        """Each watch is cut off after so many stored events, until the list is empty."""

        self.stays_open = False
        """After its story a watch waits for ever."""

        self.refusal: MeshError | None = None
        self.created: list[pb.CreateJobRequest] = []
        self.upload_start = pb.UploadStart()
        self.uploaded = b""
        self.largest_frame = 0
        self.watches: list[int] = []
        self.asked: list[pb.GetCaptionsRequest] = []
        self.listed: list[pb.ListJobsRequest] = []
        self.jobs: list[job_pb.Job] = []
        self.pages: list[list[pb.WatchJobsResponse]] = []
        """What each watch of the list tells; all but the last are cut off then."""
        self.lists_watched: list[pb.WatchJobsRequest] = []
        self.cancelled: list[pb.CancelJobRequest] = []
        self.deleted: list[str] = []
        self.metadata: list[dict[str, str | bytes]] = []
        self.told = asyncio.Event()
        """The whole story has been told once."""

    def _refuse(self, context: Any = None) -> None:
        if context is not None:
            self.metadata.append(dict(context.invocation_metadata()))
        if self.refusal is not None:
            raise self.refusal

    async def CreateJob(self, request: pb.CreateJobRequest, context: Any) -> pb.CreateJobResponse:  # noqa: N802
        self._refuse(context)
        self.created.append(request)
        return pb.CreateJobResponse(job=job_pb.Job(job_id=JOB_ID, state=job_pb.JOB_STATE_QUEUED))

    async def CreateJobFromUpload(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.CreateJobFromUploadRequest], context: Any
    ) -> pb.CreateJobFromUploadResponse:
        async for frame in request_iterator:
            self._refuse()
            if frame.WhichOneof("frame") == "start":
                self.upload_start = frame.start
            self.uploaded += frame.chunk
            self.largest_frame = max(self.largest_frame, len(frame.chunk))
        return pb.CreateJobFromUploadResponse(job=job_pb.Job(job_id=JOB_ID))

    async def GetJob(self, request: pb.GetJobRequest, context: Any) -> pb.GetJobResponse:  # noqa: N802
        self._refuse()
        _find(request.job_id)
        return pb.GetJobResponse(job=self.jobs[0] if self.jobs else FAILED)

    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> pb.ListJobsResponse:  # noqa: N802
        self.listed.append(request)
        begin = int(request.page_token or 0)
        end = begin + min(request.page_size, 2)
        more = str(end) if end < len(self.jobs) else ""
        return pb.ListJobsResponse(jobs=self.jobs[begin:end], next_page_token=more)

    async def WatchJobs(  # noqa: N802
        self, request: pb.WatchJobsRequest, context: Any
    ) -> AsyncIterator[pb.WatchJobsResponse]:
        self.lists_watched.append(request)
        for page in self.pages.pop(0):
            yield page
        if self.pages:
            await _cut(context)
        await asyncio.Event().wait()

    async def WatchJob(  # noqa: N802
        self, request: pb.WatchJobRequest, context: Any
    ) -> AsyncIterator[pb.WatchJobResponse]:
        self._refuse()
        _find(request.job_id)
        self.watches.append(request.after_sequence)
        yield pb.WatchJobResponse(job=job_pb.Job(job_id=JOB_ID, state=job_pb.JOB_STATE_RUNNING))
        left = self.cut_after.pop(0) if self.cut_after else None
        for update in self.story:
            if update.sequence and update.sequence <= request.after_sequence:
                continue
            if left == 0:
                await _cut(context)
            yield update
            left = None if left is None else left - bool(update.sequence)
        self.told.set()
        if self.stays_open:
            await asyncio.Event().wait()

    async def CancelJob(self, request: pb.CancelJobRequest, context: Any) -> pb.CancelJobResponse:  # noqa: N802
        self._refuse()
        _find(request.job_id)
        self.cancelled.append(request)
        return pb.CancelJobResponse(job=ended_job(job_pb.JOB_STATE_CANCELLED))

    async def DeleteJob(self, request: pb.DeleteJobRequest, context: Any) -> pb.DeleteJobResponse:  # noqa: N802
        _find(request.job_id)
        self.deleted.append(request.job_id)
        return pb.DeleteJobResponse(events_removed=7, artifacts_removed=1)

    async def GetCaptions(  # noqa: N802
        self, request: pb.GetCaptionsRequest, context: Any
    ) -> pb.GetCaptionsResponse:
        self.asked.append(request)
        name = media_pb.CaptionFormat.Name(request.format).removeprefix("CAPTION_FORMAT_")
        return pb.GetCaptionsResponse(content=f"{name} of {request.job_id}\n".encode())

    async def DownloadArtifact(  # noqa: N802
        self, request: pb.DownloadArtifactRequest, context: Any
    ) -> AsyncIterator[pb.DownloadArtifactResponse]:
        raise NotImplementedError
        yield

    async def TranscribeStream(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.TranscribeStreamRequest], context: Any
    ) -> AsyncIterator[pb.TranscribeStreamResponse]:
        raise NotImplementedError
        yield

    async def RepeatJob(self, request: pb.RepeatJobRequest, context: Any) -> pb.RepeatJobResponse:  # noqa: N802
        raise NotImplementedError

    async def GetAbilities(  # noqa: N802
        self, request: pb.GetAbilitiesRequest, context: Any
    ) -> pb.GetAbilitiesResponse:
        raise NotImplementedError


def _find(job_id: str) -> None:
    if job_id != JOB_ID:
        raise NotFoundError(f"no job {job_id}", reason=Reason.JOB_NOT_FOUND)


async def _cut(context: Any) -> None:
    """As a server that goes away looks to its client."""
    import grpc

    await context.abort(grpc.StatusCode.UNAVAILABLE, "going away")


def services(
    pipeline: ScriptedPipeline,
    admin: ScriptedAdmin,
    collections: ScriptedCollections | None = None,
) -> list[Service]:
    return [
        Service.of(
            pb.DESCRIPTOR.services_by_name["PipelineService"],
            rpc.add_PipelineServiceServicer_to_server,
            pipeline,
        ),
        Service.of(
            admin_pb.DESCRIPTOR.services_by_name["AdminService"],
            admin_rpc.add_AdminServiceServicer_to_server,
            admin,
        ),
        Service.of(
            collection_pb.DESCRIPTOR.services_by_name["CollectionService"],
            collection_rpc.add_CollectionServiceServicer_to_server,
            collections or ScriptedCollections(),
        ),
    ]


@asynccontextmanager
async def serving(
    pipeline: ScriptedPipeline,
    admin: ScriptedAdmin | None = None,
    listen: str = "127.0.0.1:0",
    collections: ScriptedCollections | None = None,
) -> AsyncIterator[str]:
    """The address it is served at."""
    parts = services(pipeline, admin or ScriptedAdmin(), collections)
    async with running_server(parts, listen, grace_seconds=0) as server:
        yield f"127.0.0.1:{server.port}"
