"""Asks every replica of every stage to remove the files it keeps."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc

from mesh.channel import open_channel
from mesh.correlation import call_metadata
from orchestrator.settings import Settings
from orchestrator.stages import DOWNLOADER, NORMALIZER, TRANSCRIBER
from ytcaption.v1 import downloader_service_pb2 as downloader_pb
from ytcaption.v1 import downloader_service_pb2_grpc as downloader_rpc
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import normalizer_service_pb2_grpc as normalizer_rpc
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb
from ytcaption.v1 import transcriber_service_pb2_grpc as transcriber_rpc

PURGE_SECONDS = 30.0


@dataclass(slots=True)
class ServiceReset:
    """What one service removed, or would."""

    name: str
    errors: list[str] = field(default_factory=list)
    jobs: int = 0
    collections: int = 0
    files: int = 0
    tasks: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class _Stage:
    name: str
    service: str
    addresses: str
    stub: Callable[[grpc.aio.Channel], Any]
    request: Callable[..., Any]


async def purge_stages(settings: Settings, *, dry_run: bool) -> list[ServiceReset]:
    """All at once; one that is down is reported as such."""
    return await asyncio.gather(
        *(_purge_stage(stage, dry_run=dry_run) for stage in _stages(settings))
    )


async def _purge_stage(stage: _Stage, *, dry_run: bool) -> ServiceReset:
    """Each replica by itself: a balanced call would reach only one of them."""
    total = ServiceReset(stage.name)
    for address in stage.addresses.split(","):
        async with open_channel(address.strip(), stage.service) as channel:
            try:
                done = await stage.stub(channel).Purge(
                    stage.request(dry_run=dry_run),
                    timeout=PURGE_SECONDS,
                    metadata=call_metadata(),
                )
            except grpc.aio.AioRpcError as error:
                total.errors.append(f"{address}: {error.details() or error.code().name}")
                continue
        total.files += done.files_removed
        total.size += done.bytes_removed
    return total


def _stages(settings: Settings) -> list[_Stage]:
    return [
        _Stage(
            "downloader",
            DOWNLOADER,
            settings.downloader,
            downloader_rpc.DownloaderServiceStub,
            downloader_pb.DownloaderServicePurgeRequest,
        ),
        _Stage(
            "normalizer",
            NORMALIZER,
            settings.normalizer,
            normalizer_rpc.NormalizerServiceStub,
            normalizer_pb.NormalizerServicePurgeRequest,
        ),
        _Stage(
            "transcriber",
            TRANSCRIBER,
            settings.transcriber,
            transcriber_rpc.TranscriberServiceStub,
            transcriber_pb.TranscriberServicePurgeRequest,
        ),
    ]
