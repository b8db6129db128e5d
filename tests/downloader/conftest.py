"""The real downloader over a real socket, and a web site to download from."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

from downloader.commands import PRELOAD, ClientOptions
from downloader.engine import MediaLimits
from downloader.fork_server import wait_until_warm
from downloader.servicer import downloader_service
from downloader.ytdlp_engine import ServiceLimits, YtDlpEngine
from mesh.forking import open_fork_server
from mesh.scratch import Scratch
from mesh.server import running_server
from tests.downloader.site import PATIENCE, Site
from ytcaption.v1 import downloader_service_pb2_grpc as rpc

CEILING = MediaLimits(max_bytes=64 * 1024**2, max_duration=timedelta(hours=1))

Serve = Callable[..., AbstractAsyncContextManager[rpc.DownloaderServiceStub]]


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> None:
    """The fork server, with yt-dlp loaded."""
    open_fork_server(PRELOAD)
    asyncio.run(wait_until_warm())


@pytest.fixture
def site() -> Iterator[Site]:
    with Site().running() as running:
        yield running


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Serves a downloader with these ClientOptions; by default loopback is allowed."""

    @asynccontextmanager
    async def serving(**changes: object) -> AsyncIterator[rpc.DownloaderServiceStub]:
        service_limits = changes.pop("service_limits", ServiceLimits())
        client_options = ClientOptions(
            socket_timeout_seconds=PATIENCE, allow_private_addresses=True
        )
        client_options = replace(client_options, **changes)  # type: ignore[arg-type]
        scratch = Scratch(tmp_path, "download-")
        engine = YtDlpEngine(client_options, scratch, service_limits)  # type: ignore[arg-type]
        async with (
            running_server([downloader_service(engine, CEILING)], grace_seconds=0) as server,
            grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
        ):
            yield rpc.DownloaderServiceStub(channel)

    return serving


@pytest.fixture
async def downloader(serve: Serve) -> AsyncIterator[rpc.DownloaderServiceStub]:
    async with serve() as stub:
        yield stub
