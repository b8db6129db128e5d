"""A PipelineService and an AdminService that follow a script, for a real socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from google.protobuf.duration_pb2 import Duration

from mesh.errors import InvalidRequestError, MeshError, NotFoundError
from mesh.reasons import Reason
from mesh.server import Service, running_server
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import admin_service_pb2_grpc as admin_rpc
from ytcaption.v1 import event_pb2 as event_pb
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import pipeline_service_pb2_grpc as rpc

JOB_ID = "0199aaaa-0000-7000-8000-000000000001"


def duration(seconds: float) -> Duration:
    found = Duration()
    found.FromTimedelta(timedelta(seconds=seconds))
    return found


def segment(sequence: int, text: str) -> pb.WatchJobResponse:
    """Segments carry the numbers of their sequence, so a lost one shows."""
    settled = event_pb.SegmentSettled(
        segment=media_pb.Segment(
            index=sequence,
            start_offset=duration(sequence),
            end_offset=duration(sequence + 0.5),
            text=text,
        )
    )
    event = event_pb.Event(type=event_pb.EVENT_TYPE_SEGMENT_SETTLED, segment_settled=settled)
    return pb.WatchJobResponse(sequence=sequence, event=event)


def media_found(sequence: int, title: str) -> pb.WatchJobResponse:
    found = event_pb.MediaFound(media=media_pb.MediaInfo(title=title))
    event = event_pb.Event(type=event_pb.EVENT_TYPE_MEDIA_FOUND, media_found=found)
    return pb.WatchJobResponse(sequence=sequence, event=event)


def finished(sequence: int, job: job_pb.Job) -> pb.WatchJobResponse:
    event = event_pb.Event(
        type=event_pb.EVENT_TYPE_JOB_FINISHED, job_finished=event_pb.JobFinished(job=job)
    )
    return pb.WatchJobResponse(sequence=sequence, event=event)


def attempt_failed(sequence: int, message: str) -> pb.WatchJobResponse:
    failed = event_pb.AttemptFailed(failure=job_pb.Failure(reason="SITE_ERROR", message=message))
    event = event_pb.Event(type=event_pb.EVENT_TYPE_ATTEMPT_FAILED, attempt_failed=failed)
    return pb.WatchJobResponse(sequence=sequence, event=event)


def accepted(sequence: int, job: job_pb.Job) -> pb.WatchJobResponse:
    event = event_pb.Event(
        type=event_pb.EVENT_TYPE_JOB_ACCEPTED, job_accepted=event_pb.JobAccepted(job=job)
    )
    return pb.WatchJobResponse(sequence=sequence, event=event)


def progress(done: float, total: float | None) -> pb.WatchJobResponse:
    download = media_pb.ByteProgress(done_bytes=int(done * 1000))
    heard = media_pb.MediaProgress(done=duration(done))
    if total is not None:
        download.total_bytes = int(total * 1000)
        heard.total.CopyFrom(duration(total))
    running = job_pb.STAGE_STATE_RUNNING
    stages = [
        job_pb.StageStatus(
            stage=job_pb.STAGE_DOWNLOAD, state=running, progress=media_pb.Progress(bytes=download)
        ),
        job_pb.StageStatus(
            stage=job_pb.STAGE_TRANSCRIPTION, state=running, progress=media_pb.Progress(media=heard)
        ),
    ]
    return pb.WatchJobResponse(progress=job_pb.JobProgress(job_id=JOB_ID, stages=stages))


def ended_job(state: job_pb.JobState.ValueType, **fields: Any) -> job_pb.Job:
    return job_pb.Job(job_id=JOB_ID, state=state, **fields)


SUCCEEDED = ended_job(
    job_pb.JOB_STATE_SUCCEEDED, segment_count=2, media=media_pb.MediaInfo(title="A talk")
)
FAILED = ended_job(
    job_pb.JOB_STATE_FAILED,
    failure=job_pb.Failure(reason="VIDEO_PRIVATE", message="the video is private"),
)
REPLAYED = job_pb.Job(job_id=JOB_ID, state=job_pb.JOB_STATE_QUEUED, attempt=1, max_attempts=5)
STORY = [
    media_found(1, "A talk"),
    segment(2, "hello"),
    segment(3, "world"),
    finished(4, SUCCEEDED),
]


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
        if request.job_id != JOB_ID:
            raise NotFoundError(f"no job {request.job_id}", reason=Reason.JOB_NOT_FOUND)
        return pb.GetJobResponse(job=self.jobs[0] if self.jobs else FAILED)

    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> pb.ListJobsResponse:  # noqa: N802
        self.listed.append(request)
        begin = int(request.page_token or 0)
        end = begin + min(request.page_size, 2)
        more = str(end) if end < len(self.jobs) else ""
        return pb.ListJobsResponse(jobs=self.jobs[begin:end], next_page_token=more)

    async def WatchJob(  # noqa: N802
        self, request: pb.WatchJobRequest, context: Any
    ) -> AsyncIterator[pb.WatchJobResponse]:
        self._refuse()
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
        self.cancelled.append(request)
        return pb.CancelJobResponse(job=ended_job(job_pb.JOB_STATE_CANCELLED))

    async def DeleteJob(self, request: pb.DeleteJobRequest, context: Any) -> pb.DeleteJobResponse:  # noqa: N802
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


async def _cut(context: Any) -> None:
    """As a server that goes away looks to its client."""
    import grpc

    await context.abort(grpc.StatusCode.UNAVAILABLE, "going away")


class ScriptedAdmin(admin_rpc.AdminServiceServicer):
    """Answers how it is, keeps dead letters, and says what it pretends to have removed."""

    def __init__(self) -> None:
        self.healthy = True
        self.cleanups: list[admin_pb.CleanupRequest] = []
        self.resets: list[admin_pb.FactoryResetRequest] = []
        self.stage_error = ""
        """Why the downloader could not be reset."""
        self.letters: list[job_pb.DeadLetter] = []
        """Newest first."""

        self.listed: list[admin_pb.ListDeadLettersRequest] = []
        self.replayed: list[str] = []
        self.purged: list[admin_pb.PurgeDeadLettersRequest] = []

    async def ListDeadLetters(  # noqa: N802
        self, request: admin_pb.ListDeadLettersRequest, context: Any
    ) -> admin_pb.ListDeadLettersResponse:
        self.listed.append(request)
        wanted = [one for one in self.letters if request.reason in ("", one.failure.reason)]
        begin = int(request.page_token or 0)
        end = begin + min(request.page_size, 2)
        more = str(end) if end < len(wanted) else ""
        return admin_pb.ListDeadLettersResponse(
            dead_letters=wanted[begin:end], next_page_token=more
        )

    async def ReplayDeadLetter(  # noqa: N802
        self, request: admin_pb.ReplayDeadLetterRequest, context: Any
    ) -> admin_pb.ReplayDeadLetterResponse:
        if request.job_id not in [letter.job_id for letter in self.letters]:
            raise NotFoundError(
                f"no dead letter of {request.job_id}", reason=Reason.DEAD_LETTER_NOT_FOUND
            )
        self.replayed.append(request.job_id)
        return admin_pb.ReplayDeadLetterResponse(job=REPLAYED)

    async def PurgeDeadLetters(  # noqa: N802
        self, request: admin_pb.PurgeDeadLettersRequest, context: Any
    ) -> admin_pb.PurgeDeadLettersResponse:
        self.purged.append(request)
        return admin_pb.PurgeDeadLettersResponse(dead_letters_removed=len(self.letters))

    async def GetHealth(  # noqa: N802
        self, request: admin_pb.GetHealthRequest, context: Any
    ) -> admin_pb.GetHealthResponse:
        part = admin_pb.ComponentHealth(
            name="nats", healthy=self.healthy, detail="speaks \x1b[31mred", address="127.0.0.1:1"
        )
        return admin_pb.GetHealthResponse(healthy=self.healthy, version="1", components=[part])

    async def GetStats(  # noqa: N802
        self, request: admin_pb.GetStatsRequest, context: Any
    ) -> admin_pb.GetStatsResponse:
        done = admin_pb.StateCount(state=job_pb.JOB_STATE_SUCCEEDED, count=3)
        return admin_pb.GetStatsResponse(
            version="1",
            jobs=[done],
            queue_depth=2,
            dead_letters=1,
            stored_bytes=2_500_000,
            uptime=duration(3661.5),
        )

    async def Cleanup(  # noqa: N802
        self, request: admin_pb.CleanupRequest, context: Any
    ) -> admin_pb.CleanupResponse:
        self.cleanups.append(request)
        return admin_pb.CleanupResponse(
            jobs_removed=4, events_removed=50, artifacts_removed=0, bytes_removed=2_500_000
        )

    async def FactoryReset(  # noqa: N802
        self, request: admin_pb.FactoryResetRequest, context: Any
    ) -> admin_pb.FactoryResetResponse:
        if request.confirmation != "ERASE EVERYTHING":
            raise InvalidRequestError("not confirmed", reason=Reason.CONFIRMATION_MISSING)
        self.resets.append(request)
        own = admin_pb.ServiceReset(name="orchestrator", done=True, jobs_removed=4, tasks_purged=2)
        stage = admin_pb.ServiceReset(
            name="downloader", done=not self.stage_error, error=self.stage_error, files_removed=7
        )
        return admin_pb.FactoryResetResponse(services=[own, stage])


def services(pipeline: ScriptedPipeline, admin: ScriptedAdmin) -> list[Service]:
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
    ]


@asynccontextmanager
async def serving(
    pipeline: ScriptedPipeline,
    admin: ScriptedAdmin | None = None,
    listen: str = "127.0.0.1:0",
) -> AsyncIterator[str]:
    """The address it is served at."""
    parts = services(pipeline, admin or ScriptedAdmin())
    async with running_server(parts, listen, grace_seconds=0) as server:
        yield f"127.0.0.1:{server.port}"


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Polls; a condition that never comes true is a TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 # about other processes
            await asyncio.sleep(0.02)
