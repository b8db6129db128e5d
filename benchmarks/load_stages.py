"""Stages that answer at once, so that only the orchestrator is measured: a process of its own.

The address of a job says how its recording goes: `http://null.test/?segments=20&every=0.5&text=60`.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from google.protobuf.duration import from_seconds

from cli.local.mesh import tls_of_services
from mesh.server import Service, running_server
from ytcaption.v1 import downloader_service_pb2 as downloader_pb
from ytcaption.v1 import downloader_service_pb2_grpc as downloader_rpc
from ytcaption.v1 import media_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import normalizer_service_pb2_grpc as normalizer_rpc
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb
from ytcaption.v1 import transcriber_service_pb2_grpc as transcriber_rpc

MARK = b"\1"
"""Opens each chunk: on their way through the spool, chunks may be joined."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the null stages make of an address."""

    segments: int = 1
    every: float = 0.0
    """Seconds from one segment to the next, and that each stage needs to begin and to end."""
    text: int = 20
    """Characters of each segment."""
    number: int = 0
    """Tells equal recordings apart: jobs of one address would wait for each other."""

    @property
    def url(self) -> str:
        """The address that asks for this."""
        query = urlencode(
            {
                "segments": self.segments,
                "every": self.every,
                "text": self.text,
                "number": self.number,
            }
        )
        return f"http://null.test/?{query}"

    @classmethod
    def of(cls, url: str) -> "Plan":
        """What an address asks for."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        return cls(
            int(asked.get("segments", 1)),
            float(asked.get("every", 0)),
            int(asked.get("text", 20)),
            int(asked.get("number", 0)),
        )


class NullDownloader(downloader_rpc.DownloaderServiceServicer):
    """Sends a chunk for each segment, as many bytes as its text has letters; sets the pace."""

    async def Download(  # noqa: N802, D102
        self, request: downloader_pb.DownloadRequest, context: Any
    ) -> AsyncIterator[downloader_pb.DownloadResponse]:
        response = downloader_pb.DownloadResponse
        plan = Plan.of(request.source_url)
        duration = from_seconds(plan.segments)
        await asyncio.sleep(plan.every)
        yield response(media=media_pb2.MediaInfo(title="Nothing", duration=duration))
        for _ in range(plan.segments):
            await asyncio.sleep(plan.every)
            yield response(chunk=MARK + bytes(plan.text - 1))
        await asyncio.sleep(plan.every)
        total = plan.segments * plan.text
        yield response(finished=downloader_pb.DownloadFinished(size_bytes=total))


class NullNormalizer(normalizer_rpc.NormalizerServiceServicer):
    """Hands bytes on as samples; keeps nothing."""

    async def Normalize(  # noqa: N802, D102
        self, request_iterator: AsyncIterator[normalizer_pb.NormalizeRequest], context: Any
    ) -> AsyncIterator[normalizer_pb.NormalizeResponse]:
        response = normalizer_pb.NormalizeResponse
        yield response(started=normalizer_pb.NormalizeStarted())
        chunks = 0
        async for frame in request_iterator:
            if frame.HasField("chunk"):
                chunks += frame.chunk.count(MARK)
                yield response(samples=frame.chunk)
                done = media_pb2.MediaProgress(done=from_seconds(chunks))
                yield response(progress=done)
        yield response(finished=normalizer_pb.NormalizeFinished(duration=from_seconds(chunks)))


class NullTranscriber(transcriber_rpc.TranscriberServiceServicer):
    """Hears one segment at each mark."""

    async def Transcribe(  # noqa: N802, D102
        self, request_iterator: AsyncIterator[transcriber_pb.TranscribeRequest], context: Any
    ) -> AsyncIterator[transcriber_pb.TranscribeResponse]:
        response = transcriber_pb.TranscribeResponse
        yield response(started=transcriber_pb.TranscribeStarted(model="null"))
        heard = 0
        async for frame in request_iterator:
            marks = frame.audio.count(MARK)
            for _ in range(marks):
                yield response(segment=_segment(heard, len(frame.audio) // marks))
                heard += 1
                yield response(progress=media_pb2.MediaProgress(done=from_seconds(heard)))
        finished = transcriber_pb.TranscribeFinished(language="en", duration=from_seconds(heard))
        yield response(finished=finished)


def _segment(index: int, characters: int) -> media_pb2.Segment:
    return media_pb2.Segment(
        index=index,
        start_offset=from_seconds(index),
        end_offset=from_seconds(index + 1),
        text="x" * characters,
        language="en",
        settled_offset=from_seconds(index + 1),
    )


def null_services() -> list[Service]:
    """All three stages, ready for one server."""
    return [
        Service.of(
            downloader_pb.DESCRIPTOR.services_by_name["DownloaderService"],
            downloader_rpc.add_DownloaderServiceServicer_to_server,
            NullDownloader(),  # type: ignore[abstract]
        ),
        Service.of(
            normalizer_pb.DESCRIPTOR.services_by_name["NormalizerService"],
            normalizer_rpc.add_NormalizerServiceServicer_to_server,
            NullNormalizer(),  # type: ignore[abstract]
        ),
        Service.of(
            transcriber_pb.DESCRIPTOR.services_by_name["TranscriberService"],
            transcriber_rpc.add_TranscriberServiceServicer_to_server,
            NullTranscriber(),  # type: ignore[abstract]
        ),
    ]


async def serve(listen: str, certs: str = "") -> None:
    """Serves until SIGTERM or SIGINT; with a folder of certificates, as the downloader."""
    tls = tls_of_services(Path(certs) if certs else None, {})["downloader"]
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with running_server(null_services(), listen, grace_seconds=0, tls=tls):
        await stopping.wait()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
