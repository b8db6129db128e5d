"""One run from source to text: overlapping stage calls joined by pipes. Knows no job, no store."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from mesh.correlation import call_metadata
from mesh.errors import TimedOutError
from mesh.frames import truthful
from mesh.reasons import Reason
from orchestrator.pipeline.human_captions import fetch_human_captions, gone
from orchestrator.pipeline.pipes import Frames, Pipe, Spool
from orchestrator.pipeline.request import AUTO, PipelineRequest
from orchestrator.pipeline.sink import Sink
from orchestrator.pipeline.stage_call import StageCaller
from orchestrator.pipeline.stages import StageError, StageId, Stages
from orchestrator.pipeline.stall import StallWatch
from ytcaption.v1 import downloader_service_pb2 as downloader_pb
from ytcaption.v1 import job_pb2, media_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb

DOWNLOAD = job_pb2.STAGE_DOWNLOAD
NORMALIZATION = job_pb2.STAGE_NORMALIZATION
TRANSCRIPTION = job_pb2.STAGE_TRANSCRIPTION


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Runs requests through the stages."""

    stages: Stages
    stall_seconds: float
    deadline_seconds: float
    stage_stall_seconds: Mapping[StageId, float]

    async def run(self, request: PipelineRequest, sink: Sink) -> None:
        """Returns when all is transcribed; raises the first failure once all stages stopped."""
        watch = StallWatch(self.stall_seconds, self.stage_stall_seconds)
        run = _Run(self.stages, request, sink, watch, self.deadline_seconds)
        try:
            async with asyncio.timeout(self.deadline_seconds), asyncio.TaskGroup() as group:
                watching = group.create_task(run.watch.raise_when_stalled())
                if not await run.fetch_human_captions():
                    stages = [group.create_task(stage()) for stage in run.stages()]
                    await asyncio.wait(stages)
                watching.cancel()
        except ExceptionGroup as failures:
            raise first_of(failures) from None
        except TimeoutError:
            late = f"not done after {self.deadline_seconds:g} s"
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
        self._caller = StageCaller(stages, watch)
        self._media: Frames = Pipe() if request.spool is None else Spool(request.spool)
        self._samples = Pipe()
        self._container = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        self._media.close()

    async def fetch_human_captions(self) -> bool:
        """Whether human-made captions were asked for, found and used."""
        run, options = self._request, self._request.options
        if not run.human_captions:
            return False
        wanted = options.language_out or options.language
        languages = options.languages if wanted == AUTO else [wanted]
        request = downloader_pb.FetchCaptionsRequest(
            job_id=run.job_id,
            source_url=run.url,
            languages=languages,
            options=options.download,
        )
        found = await fetch_human_captions(
            self._stages, self._caller, self._sink, request, self._call_options()
        )
        if run.captions_begun and not found:
            raise gone()
        return found

    def stages(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        fetch = self._download if self._request.bytes_source is None else self._read_stored
        return [fetch, self._normalize, self._transcribe]

    def _call_options(self) -> dict[str, Any]:
        """A deadline, so that an abandoned stage stops, and the correlation id."""
        return {"timeout": self._deadline, "metadata": call_metadata()}

    def _events(self, stage: StageId, begin: Callable[[], Any]) -> AsyncGenerator[Any, None]:
        return self._caller.events(stage, begin, lambda: self._sink.stage_started(stage))

    async def _download(self) -> None:
        request = downloader_pb.DownloadRequest(
            job_id=self._request.job_id,
            source_url=self._request.url,
            options=self._request.options.download,
        )
        begin = partial(self._stages.downloader.Download, request, **self._call_options())
        async with aclosing(self._events(DOWNLOAD, begin)) as events:
            async for event in events:
                match event.WhichOneof("event"):
                    case "chunk":
                        await self._media.put(event.chunk)
                    case "progress":
                        await self._sink.progressed(
                            DOWNLOAD, media_pb2.Progress(bytes=event.progress)
                        )
                    case "media":
                        self._container.set_result(event.media.container)
                        await self._sink.media_found(event.media)
        await self._media.end()
        await self._sink.stage_completed(DOWNLOAD)

    async def _read_stored(self) -> None:
        assert self._request.bytes_source is not None  # noqa: S101 # stages() saw to it
        self._container.set_result("")
        await self._sink.stage_started(DOWNLOAD)
        done = 0
        async for chunk in self._request.bytes_source:
            await self._media.put(chunk)
            self.watch.note()
            done += len(chunk)
            moved = media_pb2.ByteProgress(done_bytes=done, total_bytes=self._request.bytes_total)
            await self._sink.progressed(DOWNLOAD, media_pb2.Progress(bytes=moved))
        await self._media.end()
        await self._sink.stage_completed(DOWNLOAD)

    async def _normalize(self) -> None:
        container = await self._container

        def begin() -> Any:
            frames = self._media_frames(container)
            return truthful(self._stages.normalizer.Normalize(frames, **self._call_options()))

        async with aclosing(self._events(NORMALIZATION, begin)) as events:
            async for event in events:
                match event.WhichOneof("event"):
                    case "samples":
                        await self._samples.put(event.samples)
                    case "kept_audio":
                        await self._sink.audio_kept(event.kept_audio)
                    case "progress":
                        progress = media_pb2.Progress(media=event.progress)
                        await self._sink.progressed(NORMALIZATION, progress)
                    case "started":
                        await self._sink.filters_chosen(event.started)
                    case "finished":
                        await self._sink.normalized(event.finished)
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

        async with aclosing(self._events(TRANSCRIPTION, begin)) as events:
            async for event in events:
                match event.WhichOneof("event"):
                    case "segment":
                        await self._sink.segment_settled(event.segment)
                    case "progress":
                        progress = media_pb2.Progress(media=event.progress)
                        await self._sink.progressed(TRANSCRIPTION, progress)
                    case "preparing":
                        await self._sink.model_preparing(event.preparing)
                    case "started":
                        await self._sink.model_ready(event.started)
                    case "finished":
                        await self._sink.finished(event.finished)
        self._samples.abandon()
        await self._sink.stage_completed(TRANSCRIPTION)

    async def _audio_frames(self) -> AsyncIterator[transcriber_pb.TranscribeRequest]:
        yield transcriber_pb.TranscribeRequest(start=self._request.transcribe_start())
        async for samples in self._samples:
            yield transcriber_pb.TranscribeRequest(audio=samples)
