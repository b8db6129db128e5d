"""One run from source to text: overlapping stage calls joined by pipes. Knows no job, no store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc

from mesh.correlation import call_metadata
from mesh.errors import TimedOutError, UnavailableError
from mesh.frames import truthful
from mesh.reasons import Reason
from mesh.status import to_error
from orchestrator.pipeline.pipes import Frames, Pipe, Spool
from orchestrator.pipeline.request import AUTO, PipelineRequest
from orchestrator.pipeline.sink import Sink
from orchestrator.pipeline.slow_downloads import MAX_SLOW_JOBS, lend_slot
from orchestrator.pipeline.stages import StageError, StageId, Stages, stage_stall_seconds
from orchestrator.pipeline.stall import StallWatch
from orchestrator.settings import Settings
from ytcaption.v1 import downloader_service_pb2 as downloader_pb
from ytcaption.v1 import job_pb2, media_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb

DOWNLOAD = job_pb2.STAGE_DOWNLOAD
NORMALIZATION = job_pb2.STAGE_NORMALIZATION
TRANSCRIPTION = job_pb2.STAGE_TRANSCRIPTION

_CUT_SHORT = UnavailableError("it ended before it finished", reason=Reason.STAGE_UNAVAILABLE)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Runs requests through the stages."""

    stages: Stages
    settings: Settings
    slow_jobs: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MAX_SLOW_JOBS), init=False
    )

    async def run(self, request: PipelineRequest, sink: Sink) -> None:
        """Returns when all is transcribed; raises the first failure once all stages stopped."""
        watch = StallWatch(self.settings.stall_seconds, stage_stall_seconds(self.settings))
        deadline = self.settings.job_seconds
        run = _Run(self.stages, request, sink, watch, deadline)
        try:
            async with asyncio.timeout(deadline), asyncio.TaskGroup() as group:
                helpers = [
                    group.create_task(run.watch.raise_when_stalled()),
                    group.create_task(run.lend_slot(self.slow_jobs)),
                ]
                if not await run.fetch_human_captions():
                    stages = [group.create_task(stage()) for stage in run.stages()]
                    await asyncio.wait(stages)
                for helper in helpers:
                    helper.cancel()
        except ExceptionGroup as failures:
            raise first_of(failures) from None
        except TimeoutError:
            late = f"not done after {deadline:g} s"
            raise StageError(
                job_pb2.STAGE_UNSPECIFIED, TimedOutError(late, reason=Reason.DEADLINE)
            ) from None
        finally:
            run.close()


def first_of(failures: ExceptionGroup[Exception]) -> Exception:
    """The failure that came first; the rest followed from it."""
    first: Exception = failures
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    return first


class _Run:
    """One request under way."""

    def __init__(
        self,
        stages: Stages,
        request: PipelineRequest,
        sink: Sink,
        watch: StallWatch,
        deadline_seconds: float,
    ) -> None:
        self._stages = stages
        self._deadline = deadline_seconds
        self._request = request
        self._sink = sink
        self.watch = watch
        self._media: Frames = Pipe() if request.spool is None else Spool(request.spool)
        self._samples = Pipe()
        self._container = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        self._media.close()

    async def lend_slot(self, slow_jobs: asyncio.Semaphore) -> None:
        """Lets other jobs have the slot while the download is slow."""
        if self._request.slot is not None and isinstance(self._media, Spool):
            await lend_slot(self._request.slot, self._media, slow_jobs, self.watch)

    async def fetch_human_captions(self) -> bool:
        """Uses human-made captions, if asked for, when the site has them; says whether it did."""
        run, options, sink = self._request, self._request.options, self._sink
        if not run.human_captions:
            return False
        wanted = options.language_out or options.language
        request = downloader_pb.FetchCaptionsRequest(
            job_id=run.job_id,
            source_url=run.url,
            languages=options.languages if wanted == AUTO else [wanted],
            options=options.download,
        )
        end = downloader_pb.CaptionsFinished()

        async def take_track(track: media_pb2.CaptionTrack) -> None:
            await sink.stage_started(DOWNLOAD)
            await sink.captions_found(track)

        async def finish(finished: downloader_pb.CaptionsFinished) -> None:
            end.CopyFrom(finished)

        await self._call(
            DOWNLOAD,
            lambda: self._stages.downloader.FetchCaptions(request, **self._call_options()),
            {
                "media": sink.media_found,
                "track": take_track,
                "segment": sink.segment_settled,
                "finished": finish,
            },
            report_start=False,  # watchers see the download start only once there is a track
        )
        if end.found:
            await sink.captions_taken()
        elif run.captions_begun:
            # An earlier attempt used some of them: transcribed segments would not fit behind those.
            gone = UnavailableError(
                "the captions are no longer on the site", reason=Reason.SITE_ERROR
            )
            raise StageError(DOWNLOAD, gone)
        return end.found

    def stages(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        fetch = self._download if self._request.bytes_source is None else self._read_stored
        return [fetch, self._normalize, self._transcribe]

    def _call_options(self) -> dict[str, Any]:
        """A deadline, so that an abandoned stage stops, and the correlation id."""
        return {"timeout": self._deadline, "metadata": call_metadata()}

    async def _call(
        self,
        stage: StageId,
        begin: Callable[[], Any],
        handlers: Mapping[str, Callable[[Any], Awaitable[None]]],
        *,
        report_start: bool = True,
    ) -> None:
        """Calls a stage, and hands its events up to `finished` to the handlers of their names."""
        async with AsyncExitStack() as ending:
            with self.watch.waiting_for(stage):
                circuit = self._stages.circuits[stage]
                permit = await ending.enter_async_context(circuit.permit())
            call = begin()
            ending.callback(call.cancel)
            if report_start:
                await self._sink.stage_started(stage)
            kind = None
            while kind != "finished":
                try:
                    with self.watch.waiting_for(stage):
                        event = await call.read()
                except grpc.aio.AioRpcError as error:
                    failure = to_error(error)
                    permit.failed(failure)
                    raise StageError(stage, failure) from error
                if event is grpc.aio.EOF:
                    raise StageError(stage, _CUT_SHORT)
                permit.answered()
                kind = event.WhichOneof("event")
                if kind in handlers:
                    await handlers[kind](getattr(event, kind))

    async def _report_media_progress(
        self, stage: StageId, progress: media_pb2.MediaProgress
    ) -> None:
        await self._sink.progressed(stage, media_pb2.Progress(media=progress))

    async def _report_bytes(self, progress: media_pb2.ByteProgress) -> None:
        await self._sink.progressed(DOWNLOAD, media_pb2.Progress(bytes=progress))

    async def _download(self) -> None:
        request = downloader_pb.DownloadRequest(
            job_id=self._request.job_id,
            source_url=self._request.url,
            options=self._request.options.download,
        )

        async def describe(media: media_pb2.MediaInfo) -> None:
            self._container.set_result(media.container)
            await self._sink.media_found(media)

        await self._call(
            DOWNLOAD,
            lambda: self._stages.downloader.Download(request, **self._call_options()),
            {"chunk": self._media.put, "progress": self._report_bytes, "media": describe},
        )
        await self._media.end()
        await self._sink.stage_completed(DOWNLOAD)

    async def _read_stored(self) -> None:
        assert self._request.bytes_source is not None  # noqa: S101 # stages() saw to it
        self._container.set_result("")
        await self._sink.stage_started(DOWNLOAD)
        done, total = 0, self._request.bytes_total
        async for chunk in self._request.bytes_source:
            await self._media.put(chunk)
            self.watch.note()
            done += len(chunk)
            await self._report_bytes(media_pb2.ByteProgress(done_bytes=done, total_bytes=total))
        await self._media.end()
        await self._sink.stage_completed(DOWNLOAD)

    async def _normalize(self) -> None:
        container = await self._container

        def begin() -> Any:
            frames = self._media_frames(container)
            return truthful(self._stages.normalizer.Normalize(frames, **self._call_options()))

        await self._call(
            NORMALIZATION,
            begin,
            {
                "samples": self._samples.put,
                "kept_audio": self._sink.audio_kept,
                "progress": partial(self._report_media_progress, NORMALIZATION),
                "started": self._sink.filters_chosen,
                "finished": self._sink.normalized,
            },
        )
        # The normalizer may need no more bytes before their end.
        self._media.abandon()
        await self._samples.end()
        await self._sink.stage_completed(NORMALIZATION)

    async def _media_frames(self, container: str) -> AsyncIterator[normalizer_pb.NormalizeRequest]:
        start = self._request.normalize_start(container)
        yield normalizer_pb.NormalizeRequest(start=start)
        async for chunk in self._media:
            yield normalizer_pb.NormalizeRequest(chunk=chunk)

    async def _transcribe(self) -> None:
        def begin() -> Any:
            frames = self._audio_frames()
            return truthful(self._stages.transcriber.Transcribe(frames, **self._call_options()))

        await self._call(
            TRANSCRIPTION,
            begin,
            {
                "segment": self._sink.segment_settled,
                "progress": partial(self._report_media_progress, TRANSCRIPTION),
                "preparing": self._sink.model_preparing,
                "started": self._sink.model_ready,
                "finished": self._sink.finished,
            },
        )
        self._samples.abandon()
        await self._sink.stage_completed(TRANSCRIPTION)

    async def _audio_frames(self) -> AsyncIterator[transcriber_pb.TranscribeRequest]:
        yield transcriber_pb.TranscribeRequest(start=self._request.transcribe_start())
        async for samples in self._samples:
            yield transcriber_pb.TranscribeRequest(audio=samples)
