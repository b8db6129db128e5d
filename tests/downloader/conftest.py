"""The real downloader over a real socket, and a web site to download from."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

from downloader.engine import Limits
from downloader.nursery import have_one, open_nursery
from downloader.order import Manner
from downloader.scratch import Scratch
from downloader.servicer import downloader_service
from downloader.ytdlp import Bounds, YtDlpEngine
from mesh.server import running_server
from tests.downloader.site import Site
from ytcaption.v1 import downloader_service_pb2_grpc as rpc

CEILING = Limits(max_bytes=64 * 1024**2, max_duration=timedelta(hours=1))

Serve = Callable[..., AbstractAsyncContextManager[rpc.DownloaderServiceStub]]


@pytest.fixture(scope="session", autouse=True)
def nursery() -> None:
    """The fork server, warm."""
    open_nursery()
    asyncio.run(have_one())


@pytest.fixture
def site() -> Iterator[Site]:
    with Site().running() as running:
        yield running


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Serves a downloader with the given Manner fields; loopback is allowed unless told not."""

    @asynccontextmanager
    async def serving(**changes: object) -> AsyncIterator[rpc.DownloaderServiceStub]:
        bounds = changes.pop("bounds", Bounds())
        manner = Manner(socket_timeout_seconds=10, allow_private_addresses=True)
        engine = YtDlpEngine(replace(manner, **changes), Scratch(tmp_path), bounds)  # type: ignore[arg-type]
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
