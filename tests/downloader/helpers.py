"""Calls and assertions the downloader tests share."""

import os
from collections.abc import AsyncIterable
from pathlib import Path

import grpc

from mesh.status import reason_of
from ytcaption.v1 import downloader_service_pb2 as pb
from ytcaption.v1 import downloader_service_pb2_grpc as rpc

Downloader = rpc.DownloaderServiceStub
Events = list[pb.DownloadResponse]


async def download(stub: Downloader, url: str, max_bytes: int = 0) -> Events:
    request = pb.DownloadRequest(job_id="j1", source_url=url, max_bytes=max_bytes)
    return [response async for response in stub.Download(request)]


async def refusal(
    stub: Downloader, request: pb.DownloadRequest
) -> tuple[Events, grpc.StatusCode, str]:
    """What came before the call failed, its status, and its reason."""
    events = []
    try:
        async for event in stub.Download(request):
            events.append(event)
    except grpc.aio.AioRpcError as error:
        return events, error.code(), reason_of(error)
    raise AssertionError(f"it succeeded: {kinds(events)}")


async def resolve_refusal(stub: Downloader, request: pb.ResolveRequest) -> list[object]:
    """Status and reason of a listing that fails."""
    return await _refusal(stub.Resolve(request))


async def caption_refusal(stub: Downloader, request: pb.FetchCaptionsRequest) -> list[object]:
    """Status and reason of a captions call that fails."""
    return await _refusal(stub.FetchCaptions(request))


async def _refusal(call: AsyncIterable[object]) -> list[object]:
    try:
        found = [each async for each in call]
    except grpc.aio.AioRpcError as error:
        return [error.code(), reason_of(error)]
    raise AssertionError(f"it succeeded: {found}")


def kinds(events: Events) -> list[str]:
    return [str(event.WhichOneof("event")) for event in events]


def bytes_of(events: Events) -> bytes:
    return b"".join(event.chunk for event in events)


def files_in(folder: Path) -> list[Path]:
    """Files and folders below; unlike `rglob`, `walk` skips a folder that vanishes meanwhile."""
    return [Path(at, name) for at, names, files in os.walk(folder) for name in names + files]
