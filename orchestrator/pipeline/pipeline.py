"""Source to text: three overlapping calls, joined by bounded pipes. Knows no job, no store."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Coroutine,
    Mapping,
)
from contextlib import aclosing
from functools import partial
from typing import Any

from mesh.calls import truthful
from mesh.correlation import call_metadata
from mesh.errors import TimedOutError
from mesh.reasons import Reason
from orchestrator.calling import Calling
from orchestrator.given import gone, take_captions
from orchestrator.pipe import Frames, Pipe, Spool
from orchestrator.sink import Sink
from orchestrator.stages import StageError, StageId, Stages
from orchestrator.stall import StallWatch
from orchestrator.task import Task
from ytcaption.v1 import downloader_service_pb2 as downloader_pb
from ytcaption.v1 import job_pb2, media_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb

DOWNLOAD = job_pb2.STAGE_DOWNLOAD
NORMALIZATION = job_pb2.STAGE_NORMALIZATION
TRANSCRIPTION = job_pb2.STAGE_TRANSCRIPTION


class Pipeline:
    """Runs tasks through the stages."""

    def __init__(
        self,
        stages: Stages,
        *,
        stall_seconds: float,
        deadline_seconds: float,
        stage_stall_seconds: Mapping[StageId, float] | None = None,
    ) -> None:
        self._stages = stages
        self._stall_seconds = stall_seconds
        self._stage_stall_seconds = stage_stall_seconds
        self._deadline_seconds = deadline_seconds

    async def run(self, task: Task, sink: Sink) -> None:
        """Returns when all is heard; raises the first failure, once everything else has stopped."""
        watch = StallWatch(self._stall_seconds, self._stage_stall_seconds)
        run = _Run(self._stages, task, sink, watch, self._deadline_seconds)
        try:
            async with asyncio.timeout(self._deadline_seconds), asyncio.TaskGroup() as group:
                watching = group.create_task(run.watch.raise_when_stalled())
                if not await run.take_captions():
                    stages = [group.create_task(stage()) for stage in run.stages()]
                    await asyncio.wait(stages)
                watching.cancel()
        except ExceptionGroup as failures:
            raise first_of(failures) from None
        except TimeoutError:
            late = f"not done after {self._deadline_seconds:g} s"
            raise StageError(
                job_pb2.STAGE_UNSPECIFIED, TimedOutError(late, reason=Reason.DEADLINE)
            ) from None
        finally:
            run.close()


def first_of(failures: ExceptionGroup[Exception]) -> Exception:
    """What went wrong first; the rest followed from it."""
    first: Exception = failures
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    return first


class _Run:
    """One task on its way."""

    def __init__(
        self, stages: Stages, task: Task, sink: Sink, watch: StallWatch, deadline_seconds: float
    ) -> None:
        self._stages = stages
        self._deadline = deadline_seconds
        self._task = task
        self._sink = sink
        self.watch = watch
        self._calling = Calling(stages, watch)
        self._media: Frames = Pipe() if task.spool is None else Spool(task.spool)
        self._samples = Pipe()
        self._container = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        self._media.close()

    async def take_captions(self) -> bool:
        """Whether a human made captions that may stand in, and they are taken."""
        task = self._task
        if not task.human_captions:
            return False
        wanted = task.options.language_out or task.options.language
        request = downloader_pb.FetchCaptionsRequest(
            job_id=task.job_id,
            source_url=task.url,
            languages=[wanted] if wanted != "auto" else [],
            options=task.options.download,
        )
        found = await take_captions(self._stages, self._calling, self._sink, request, self._terms())
        if task.captions_begun and not found:
            raise gone()
        return found

    def stages(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        fetch = self._download if self._task.bytes_source is None else self._read_own
        return [fetch, self._normalize, self._transcribe]

    def _terms(self) -> dict[str, Any]:
        """A stage that loses us must not work for ever, and must know whom it works for."""
        return {"timeout": self._deadline, "metadata": call_metadata()}

    def _events(self, stage: StageId, begin: Callable[[], Any]) -> AsyncGenerator[Any, None]:
        return self._calling.events(stage, begin, lambda: self._sink.stage_started(stage))

    async def _download(self) -> None:
        request = downloader_pb.DownloadRequest(
            job_id=self._task.job_id, source_url=self._task.url, options=self._task.options.download
        )
        begin = partial(self._stages.downloader.Download, request, **self._terms())
        async with aclosing(self._events(DOWNLOAD, begin)) as events:
            async for event in events:
                match event.WhichOneof("event"):
                    case "chunk":
                        await self._media.put(event.chunk)
                    case "progress":
                        await self._sink.moved(DOWNLOAD, media_pb2.Progress(bytes=event.progress))
                    case "media":
                        self._container.set_result(event.media.container)
                        await self._sink.media_found(event.media)
        await self._media.end()
        await self._sink.stage_completed(DOWNLOAD)

    async def _read_own(self) -> None:
        assert self._task.bytes_source is not None  # noqa: S101 # stages() saw to it
        self._container.set_result("")
        await self._sink.stage_started(DOWNLOAD)
        done = 0
        async for chunk in self._task.bytes_source:
            await self._media.put(chunk)
            self.watch.note()
            done += len(chunk)
            moved = media_pb2.ByteProgress(done_bytes=done, total_bytes=self._task.bytes_total)
            await self._sink.moved(DOWNLOAD, media_pb2.Progress(bytes=moved))
        await self._media.end()
        await self._sink.stage_completed(DOWNLOAD)

    async def _normalize(self) -> None:
        container = await self._container

        def begin() -> Any:
            frames = self._media_frames(container)
            return truthful(self._stages.normalizer.Normalize(frames, **self._terms()))

        async with aclosing(self._events(NORMALIZATION, begin)) as events:
            async for event in events:
                match event.WhichOneof("event"):
                    case "samples":
                        await self._samples.put(event.samples)
                    case "kept_audio":
                        await self._sink.audio_kept(event.kept_audio)
                    case "progress":
                        progress = media_pb2.Progress(media=event.progress)
                        await self._sink.moved(NORMALIZATION, progress)
                    case "started":
                        await self._sink.filters_chosen(event.started)
                    case "finished":
                        await self._sink.normalized(event.finished)
        # It may have had enough before the end of the bytes.
        self._media.abandon()
        await self._samples.end()
        await self._sink.stage_completed(NORMALIZATION)

    async def _media_frames(self, container: str) -> AsyncIterator[normalizer_pb.NormalizeRequest]:
        start = self._task.normalize_start(container)
        yield normalizer_pb.NormalizeRequest(start=start)
        async for chunk in self._media:
            yield normalizer_pb.NormalizeRequest(chunk=chunk)

    async def _transcribe(self) -> None:
        def begin() -> Any:
            frames = self._audio_frames()
            return truthful(self._stages.transcriber.Transcribe(frames, **self._terms()))

        async with aclosing(self._events(TRANSCRIPTION, begin)) as events:
            async for event in events:
                match event.WhichOneof("event"):
                    case "segment":
                        await self._sink.heard(event.segment)
                    case "progress":
                        progress = media_pb2.Progress(media=event.progress)
                        await self._sink.moved(TRANSCRIPTION, progress)
                    case "preparing":
                        await self._sink.model_preparing(event.preparing)
                    case "started":
                        await self._sink.model_ready(event.started)
                    case "finished":
                        await self._sink.finished(event.finished)
        self._samples.abandon()
        await self._sink.stage_completed(TRANSCRIPTION)

    async def _audio_frames(self) -> AsyncIterator[transcriber_pb.TranscribeRequest]:
        yield transcriber_pb.TranscribeRequest(start=self._task.transcribe_start())
        async for samples in self._samples:
            yield transcriber_pb.TranscribeRequest(audio=samples)
