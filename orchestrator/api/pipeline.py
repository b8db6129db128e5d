"""PipelineService: jobs, captions, artifacts and live streams for clients."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from structlog.contextvars import bind_contextvars

from mesh.correlation import adopt, new_id
from mesh.errors import NotFoundError
from mesh.frames import read_data, read_start
from mesh.identity import current
from mesh.reasons import Reason
from mesh.watching import TERMINAL
from orchestrator.api.stats import limits_of
from orchestrator.api.uploads import LIVE_MIN_BYTES, in_time, received, steady
from orchestrator.jobs.caption_files import CaptionReader
from orchestrator.jobs.captions import format_infos
from orchestrator.jobs.control import JobControl
from orchestrator.jobs.index import JobIndex, ListQuery
from orchestrator.jobs.storage import JobStorage
from orchestrator.jobs.submission import JobSpec, Rerun, Reservation, Submission
from orchestrator.jobs.validation import check_scheduling, check_url, check_word, resolve
from orchestrator.pipeline.capabilities import Capabilities
from orchestrator.pipeline.live_stream import heard_seconds, transcribe_live
from orchestrator.pipeline.pipeline import Pipeline
from orchestrator.pipeline.request import PipelineRequest
from orchestrator.queue.capacity import Capacity
from orchestrator.quotas.quotas import Quotas
from orchestrator.quotas.usage import AUDIO_HOURS, LIVE_STREAMS
from orchestrator.settings import Settings
from orchestrator.watch.event_feed import FeedPool, JobFeed
from orchestrator.watch.live_pages import LivePages
from orchestrator.webhooks.addresses import check_webhook
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import pipeline_service_pb2_grpc as rpc


@dataclass(frozen=True, slots=True)
class PipelineServicer(rpc.PipelineServiceServicer):
    """Translates between messages and engines; decides nothing."""

    settings: Settings
    capabilities: Capabilities
    storage: JobStorage
    index: JobIndex
    live_pages: LivePages
    feeds: FeedPool[JobFeed]
    submission: Submission
    control: JobControl
    reading: CaptionReader
    pipeline: Pipeline
    capacity: Capacity
    quotas: Quotas
    rerun: Rerun

    async def CreateJob(self, request: pb.CreateJobRequest, context: Any) -> pb.CreateJobResponse:
        with self.submission.prompt():  # the times of slow requests must not add up
            spec, reserved = await self._checked(request)
            if reserved.accepted:
                return pb.CreateJobResponse(job=reserved.accepted.job)
            await self.capacity.check()
            return pb.CreateJobResponse(job=await self.submission.accept(reserved, spec))

    async def CreateJobFromUpload(
        self, request_iterator: AsyncIterator[pb.CreateJobFromUploadRequest], context: Any
    ) -> pb.CreateJobFromUploadResponse:
        idle_seconds = self.settings.upload_idle_seconds
        start: pb.UploadStart = await in_time(read_start(request_iterator), idle_seconds)
        spec, reserved = await self._checked(start)
        if reserved.accepted:
            return pb.CreateJobFromUploadResponse(job=reserved.accepted.job)
        announced = start.size_bytes if start.HasField("size_bytes") else None
        async with (
            self.submission.receiving(spec, announced or 0),
            received(
                self.capacity.guarded(steady(read_data(request_iterator, "chunk"), idle_seconds)),
                start.file_name,
                self.settings.work_dir,
                max_bytes=self.settings.max_upload_bytes,
                announced=announced,
            ) as (path, upload),
        ):
            spec.source.upload.CopyFrom(upload)
            job = await self.submission.accept(reserved, spec, path)
        return pb.CreateJobFromUploadResponse(job=job)

    async def _checked(
        self, request: pb.CreateJobRequest | pb.UploadStart
    ) -> tuple[JobSpec, Reservation]:
        """Checks a request and reserves its id; an upload becomes the source once it is here."""
        _adopt_correlation(request.correlation_id)
        scheduling, source = check_scheduling(request), job_pb2.Source()
        if isinstance(request, pb.CreateJobRequest):
            source.url = check_url(request.source_url)
        options = resolve(request.options)
        webhook_url = check_webhook(request.webhook_url, self.settings)
        await self.capabilities.check(options)
        caller = current()
        owner = caller.subject
        group = caller.sharing(request.group if request.HasField("group") else None)
        reserved = await self.submission.reserve(request.request_id, owner)
        spec = JobSpec(
            source,
            options,
            scheduling,
            request.correlation_id,
            request.force,
            webhook_url,
            owner=owner,
            group=group,
        )
        return spec, reserved

    async def GetJob(self, request: pb.GetJobRequest, context: Any) -> pb.GetJobResponse:
        return pb.GetJobResponse(job=(await self.storage.jobs.visible(request.job_id)).job)

    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> pb.ListJobsResponse:
        page = await self.index.page(
            request.page_size, request.page_token, frozenset(request.states), request.query
        )
        return pb.ListJobsResponse(
            jobs=page.items, next_page_token=page.next_token, total_size=page.total
        )

    async def WatchJobs(
        self, request: pb.WatchJobsRequest, context: Any
    ) -> AsyncIterator[pb.WatchJobsResponse]:
        wanted = ListQuery.checked(
            request.page_size, request.page_token, request.states, request.query
        )
        watch = self.live_pages.watch(self.index.look, wanted)
        async with aclosing(watch) as pages:
            async for page in pages:
                yield pb.WatchJobsResponse(
                    jobs=page.items, next_page_token=page.next_token, total_size=page.total
                )

    async def WatchJob(
        self, request: pb.WatchJobRequest, context: Any
    ) -> AsyncIterator[pb.WatchJobResponse]:
        bind_contextvars(job_id=request.job_id)
        job = (await self.storage.jobs.visible(request.job_id)).job
        yield pb.WatchJobResponse(job=job)
        async with self.feeds.of(job.job_id) as feed:
            await feed.read_stored()
            # A terminal job without an event log has outlived it; one without its end is ending.
            follow = job.state not in TERMINAL or not feed.empty
            watch = feed.watch(request.after_sequence, follow=follow, join=request.join_events)
            async with aclosing(watch) as updates:
                async for update in updates:
                    if isinstance(update, job_pb2.JobProgress):
                        yield pb.WatchJobResponse(progress=update)
                    else:
                        yield update.response

    async def CancelJob(self, request: pb.CancelJobRequest, context: Any) -> pb.CancelJobResponse:
        await self.storage.jobs.check_visible(request.job_id)
        job = await self.control.cancel(request.job_id, request.note)
        return pb.CancelJobResponse(job=job)

    async def RepeatJob(self, request: pb.RepeatJobRequest, context: Any) -> pb.RepeatJobResponse:
        _adopt_correlation(request.correlation_id)
        webhook_url = check_webhook(request.webhook_url, self.settings)
        job = await self.rerun.repeat(
            request.job_id, request.request_id, request.correlation_id, webhook_url
        )
        return pb.RepeatJobResponse(job=job)

    async def DeleteJob(self, request: pb.DeleteJobRequest, context: Any) -> pb.DeleteJobResponse:
        await self.storage.jobs.check_visible(request.job_id)
        removed = await self.control.delete(request.job_id)
        return pb.DeleteJobResponse(events_removed=removed.events, artifacts_removed=removed.files)

    async def GetCaptions(
        self, request: pb.GetCaptionsRequest, context: Any
    ) -> pb.GetCaptionsResponse:
        job = (await self.storage.jobs.visible(request.job_id)).job
        captions = await self.reading.captions(
            job,
            request.format,
            request.cue_rules,
            word_cues=request.word_cues,
            translated=request.translated,
        )
        return pb.GetCaptionsResponse(
            content=captions.content,
            media_type=captions.media_type,
            file_name=captions.file_name,
            complete=captions.complete,
        )

    async def DownloadArtifact(
        self, request: pb.DownloadArtifactRequest, context: Any
    ) -> AsyncIterator[pb.DownloadArtifactResponse]:
        job = (await self.storage.jobs.visible(request.job_id)).job
        artifact = next((found for found in job.artifacts if found.name == request.name), None)
        if artifact is None:
            raise NotFoundError(
                f"the job has no artifact {request.name[:64]!r}", reason=Reason.ARTIFACT_NOT_FOUND
            )
        yield pb.DownloadArtifactResponse(artifact=artifact)
        chunks = self.storage.artifacts.read(
            job.job_id, artifact.name, request.offset_bytes, request.limit_bytes
        )
        async for chunk in chunks:
            yield pb.DownloadArtifactResponse(chunk=chunk)

    async def GetAbilities(
        self, request: pb.GetAbilitiesRequest, context: Any
    ) -> pb.GetAbilitiesResponse:
        found = await self.capabilities.all()
        found.limits.CopyFrom(limits_of(self.settings))
        found.caption_formats.extend(format_infos())
        return found

    async def TranscribeStream(
        self, request_iterator: AsyncIterator[pb.TranscribeStreamRequest], context: Any
    ) -> AsyncIterator[pb.TranscribeStreamResponse]:
        idle_seconds = self.settings.live_idle_seconds
        start: pb.TranscribeStreamStart = await in_time(read_start(request_iterator), idle_seconds)
        _adopt_correlation(start.correlation_id)
        task = PipelineRequest(
            job_id=new_id(),
            options=resolve(start.options),
            bytes_source=steady(read_data(request_iterator, "chunk"), idle_seconds, LIVE_MIN_BYTES),
            keep_audio=False,
            live=True,
            live_stream=True,
        )
        async with (
            self.quotas.opened(current().subject, {LIVE_STREAMS: 1, AUDIO_HOURS: 0}) as stream,
            aclosing(transcribe_live(self.pipeline, task)) as responses,
        ):
            async for response in responses:
                stream.seconds = max(stream.seconds, heard_seconds(response))
                yield response


def _adopt_correlation(correlation_id: str) -> None:
    if check_word(correlation_id, "correlation_id"):
        adopt(correlation_id)
