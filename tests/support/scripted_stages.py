"""The stages of a script, on real sockets."""

from collections.abc import AsyncIterator, Callable
from typing import Any

from google.protobuf.duration import from_seconds

from mesh.errors import UnavailableError
from mesh.reasons import Reason
from mesh.server import Service
from tests.support.scripted import SECOND, Script
from tests.support.segments import human_segment, transcribed_segment
from ytcaption.v1 import downloader_service_pb2 as downloader_pb
from ytcaption.v1 import downloader_service_pb2_grpc as downloader_rpc
from ytcaption.v1 import media_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import normalizer_service_pb2_grpc as normalizer_rpc
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb
from ytcaption.v1 import transcriber_service_pb2_grpc as transcriber_rpc

KEPT_SHARE = len(SECOND) // 100
"""A second of media is a hundred bytes of kept audio, however it is cut into frames."""


class ScriptedDownloader(downloader_rpc.DownloaderServiceServicer):
    """Sends one second of silence a chunk."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def Download(  # noqa: N802
        self, request: downloader_pb.DownloadRequest, context: Any
    ) -> AsyncIterator[downloader_pb.DownloadResponse]:
        script = self._script
        script.downloads.append(request.source_url)
        script.download_options.append(request.options)
        script.correlation_ids += [
            str(value) for key, value in context.invocation_metadata() if key == "x-correlation-id"
        ]
        if script.failures:
            raise script.failures.pop(0)
        if refusals := script.refusals.get(request.source_url):
            raise refusals.pop(0)
        if request.source_url in script.hanging:
            await script.pause()
        title = f"A talk of {request.source_url}" if script.echoes else "A talk"
        media = media_pb2.MediaInfo(title=title, duration=from_seconds(script.seconds))
        yield downloader_pb.DownloadResponse(media=media)
        total = len(SECOND) * script.seconds
        for second in range(script.seconds):
            if script.pause_download_at == second:
                await script.pause()
            yield downloader_pb.DownloadResponse(chunk=SECOND)
            progress = media_pb2.ByteProgress(
                done_bytes=len(SECOND) * (second + 1), total_bytes=total
            )
            yield downloader_pb.DownloadResponse(progress=progress)
        yield downloader_pb.DownloadResponse(
            finished=downloader_pb.DownloadFinished(size_bytes=total)
        )

    async def Resolve(  # noqa: N802
        self, request: downloader_pb.ResolveRequest, context: Any
    ) -> AsyncIterator[downloader_pb.ResolveResponse]:
        script = self._script
        script.resolves.append(request)
        behind = script.listings[request.source_url]
        breaks_at, error = script.listing_failures.pop(0) if script.listing_failures else (-1, None)
        for place, address in enumerate([*behind, ""]):
            if place == breaks_at and error is not None:
                raise error
            if place == script.pause_listing_at:
                await script.list_on.wait()
            if address:
                media = media_pb2.MediaInfo(title=f"Talk {place + 1}", upload_date="2025-10-07")
                yield downloader_pb.ResolveResponse(source_url=address, media=media)

    async def FetchCaptions(  # noqa: N802
        self, request: downloader_pb.FetchCaptionsRequest, context: Any
    ) -> AsyncIterator[downloader_pb.FetchCaptionsResponse]:
        script, response = self._script, downloader_pb.FetchCaptionsResponse
        script.caption_languages.append(list(request.languages))
        duration = from_seconds(len(script.captions))
        yield response(media=media_pb2.MediaInfo(title="A talk", duration=duration))
        if script.captions:
            yield response(track=media_pb2.CaptionTrack(language="pt-BR", name="by hand"))
        for index, text in enumerate(script.captions):
            if script.captions_break_after == index:
                script.captions_break_after = None
                raise UnavailableError("the site hung up", reason=Reason.NETWORK_ERROR)
            yield response(segment=human_segment(index, text))
        finished = downloader_pb.CaptionsFinished(
            found=bool(script.captions), segments=len(script.captions)
        )
        yield response(finished=finished)

    async def Purge(  # noqa: N802
        self, request: downloader_pb.DownloaderServicePurgeRequest, context: Any
    ) -> downloader_pb.DownloaderServicePurgeResponse:
        answer: downloader_pb.DownloaderServicePurgeResponse = self._script.purge(
            downloader_pb.DownloaderServicePurgeResponse, dry_run=request.dry_run
        )
        return answer


class ScriptedNormalizer(normalizer_rpc.NormalizerServiceServicer):
    """Passes bytes on as samples, and keeps them too."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def Normalize(  # noqa: N802
        self, request_iterator: AsyncIterator[normalizer_pb.NormalizeRequest], context: Any
    ) -> AsyncIterator[normalizer_pb.NormalizeResponse]:
        response = normalizer_pb.NormalizeResponse
        filters = [media_pb2.AppliedFilter(name="afftdn", option="remove_noise")]
        started = normalizer_pb.NormalizeStarted(
            applied_filters=filters, kept_audio_media_type="audio/webm"
        )
        yield response(started=started)
        size = 0
        async for frame in request_iterator:
            if frame.HasField("chunk"):
                kept = size // KEPT_SHARE
                size += len(frame.chunk)
                yield response(samples=frame.chunk)
                yield response(kept_audio=bytes(size // KEPT_SHARE - kept))
                done = media_pb2.MediaProgress(done=from_seconds(size // len(SECOND)))
                yield response(progress=done)
        duration = from_seconds(size // len(SECOND))
        finished = normalizer_pb.NormalizeFinished(duration=duration, warnings=self._script.damage)
        yield response(finished=finished)

    async def GetCapabilities(  # noqa: N802
        self, request: normalizer_pb.GetCapabilitiesRequest, context: Any
    ) -> normalizer_pb.GetCapabilitiesResponse:
        names = [field.name for field in normalizer_pb.NormalizeOptions.DESCRIPTOR.fields]
        return normalizer_pb.GetCapabilitiesResponse(
            capabilities=[
                normalizer_pb.OptionCapability(
                    option=name,
                    honoured=name not in self._script.missing,
                    why_not=self._script.missing.get(name, ""),
                )
                for name in names
            ]
        )

    async def Purge(  # noqa: N802
        self, request: normalizer_pb.NormalizerServicePurgeRequest, context: Any
    ) -> normalizer_pb.NormalizerServicePurgeResponse:
        answer: normalizer_pb.NormalizerServicePurgeResponse = self._script.purge(
            normalizer_pb.NormalizerServicePurgeResponse, dry_run=request.dry_run
        )
        return answer


class ScriptedTranscriber(transcriber_rpc.TranscriberServiceServicer):
    """Hears one word a second; two seconds make a window."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def ListModels(  # noqa: N802
        self, request: transcriber_pb.ListModelsRequest, context: Any
    ) -> transcriber_pb.ListModelsResponse:
        model = transcriber_pb.Model(name=self._script.model, selected=True)
        return transcriber_pb.ListModelsResponse(
            models=[model], translations=self._script.translations
        )

    async def GetModelState(  # noqa: N802
        self, request: transcriber_pb.GetModelStateRequest, context: Any
    ) -> transcriber_pb.GetModelStateResponse:
        preparing = next(iter(self._script.preparing), None)
        return transcriber_pb.GetModelStateResponse(model=self._script.model, preparing=preparing)

    async def Transcribe(  # noqa: N802
        self, request_iterator: AsyncIterator[transcriber_pb.TranscribeRequest], context: Any
    ) -> AsyncIterator[transcriber_pb.TranscribeResponse]:
        response = transcriber_pb.TranscribeResponse
        start = (await anext(aiter(request_iterator))).start
        self._script.starts.append(start)
        for preparing in self._script.preparing:
            yield response(preparing=preparing)
            await self._script.pause()
        yield response(started=self._script.started(start.language_out))
        settled = int(start.settled_offset.ToSeconds())
        second = size = 0
        async for frame in request_iterator:
            size += len(frame.audio)
            while second < size // len(SECOND):
                second += 1
                if second > settled:
                    if self._script.pause_before_segment == second - 1:
                        await self._script.pause()
                    if failures := self._script.segment_failures.get(second - 1):
                        raise failures.pop(0)
                    segment = transcribed_segment(second, words=start.word_timestamps)
                    segment.text += f" {start.initial_prompt}" * self._script.echoes
                    segment.uncertain = segment.index in self._script.uncertain
                    yield response(segment=segment)
                yield response(progress=media_pb2.MediaProgress(done=from_seconds(second)))
        finished = transcriber_pb.TranscribeFinished(language="en", duration=from_seconds(second))
        if not start.language:
            finished.language_probability = self._script.language_probability
        yield response(finished=finished)

    async def Purge(  # noqa: N802
        self, request: transcriber_pb.TranscriberServicePurgeRequest, context: Any
    ) -> transcriber_pb.TranscriberServicePurgeResponse:
        answer: transcriber_pb.TranscriberServicePurgeResponse = self._script.purge(
            transcriber_pb.TranscriberServicePurgeResponse, dry_run=request.dry_run
        )
        return answer


def scripted_services(script: Script) -> list[Service]:
    """All three stages, ready for one server."""

    def service(module: Any, name: str, add: Callable[..., None], servicer: Any) -> Service:
        return Service.of(module.DESCRIPTOR.services_by_name[name], add, servicer)

    return [
        service(
            downloader_pb,
            "DownloaderService",
            downloader_rpc.add_DownloaderServiceServicer_to_server,
            ScriptedDownloader(script),
        ),
        service(
            normalizer_pb,
            "NormalizerService",
            normalizer_rpc.add_NormalizerServiceServicer_to_server,
            ScriptedNormalizer(script),
        ),
        service(
            transcriber_pb,
            "TranscriberService",
            transcriber_rpc.add_TranscriberServiceServicer_to_server,
            ScriptedTranscriber(script),
        ),
    ]
