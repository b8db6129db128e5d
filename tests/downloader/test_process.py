"""The real thing: `python -m downloader` as an operator runs it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from mesh.addresses import free_ports
from tests.downloader.helpers import bytes_of, download, files_in
from tests.downloader.site import PATIENCE, Site, content, mute
from tests.support.polling import until
from tests.support.processes import lives
from ytcaption.v1 import downloader_service_pb2 as pb
from ytcaption.v1 import downloader_service_pb2_grpc as rpc

SERVING = health_pb2.HealthCheckResponse.SERVING
ROOT = Path(__file__).parents[2]
PYTHONPATH = {"PYTHONPATH": f"{ROOT}:{ROOT / 'gen'}"}


@contextmanager
def running(tmp_path: Path, **variables: str) -> Iterator[tuple[psutil.Popen, str]]:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    environment = {
        **os.environ,
        **PYTHONPATH,
        "DOWNLOADER_LISTEN": address,
        "DOWNLOADER_METRICS_LISTEN": "",
        "DOWNLOADER_WORK_DIR": str(tmp_path),
        "DOWNLOADER_ALLOW_PRIVATE_ADDRESSES": "true",
        **variables,
    }
    process = psutil.Popen(
        [sys.executable, "-m", "downloader"], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        yield process, address
    finally:
        if process.is_running():
            process.kill()
        process.wait()


async def ready(channel: grpc.aio.Channel) -> None:
    request = health_pb2.HealthCheckRequest(service="ytcaption.v1.DownloaderService")
    stub: Any = health_pb2_grpc.HealthStub(channel)

    async def serving() -> bool:
        return bool((await stub.Check(request, wait_for_ready=True)).status == SERVING)

    await until(serving)


async def test_the_process_serves_until_sigterm(tmp_path: Path, site: Site) -> None:
    url = site.url("/talk.mp3", content(b"sound" * 1000))
    # No proxy listens there: a service that used the environment's proxy would fail.
    with running(tmp_path, http_proxy="http://127.0.0.1:9") as (process, address):
        async with grpc.aio.insecure_channel(address) as channel:
            await ready(channel)
            downloader = rpc.DownloaderServiceStub(channel)

            assert bytes_of(await download(downloader, url)) == b"sound" * 1000
            found = [each async for each in downloader.Resolve(pb.ResolveRequest(source_url=url))]
            assert [each.source_url for each in found] == [url]

        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 120) == 0


async def test_a_killed_service_takes_its_downloads_with_it(tmp_path: Path, site: Site) -> None:
    url = site.url("/talk.mp3", mute(site.closing))
    with running(tmp_path, DOWNLOADER_SOCKET_TIMEOUT_SECONDS=str(PATIENCE)) as (process, address):
        async with grpc.aio.insecure_channel(address) as channel:
            await ready(channel)
            call = rpc.DownloaderServiceStub(channel).Download(pb.DownloadRequest(source_url=url))
            reading = asyncio.ensure_future(call.read())
            await until(lambda: bool(site.hits))
            family = process.children(recursive=True)
            assert len(family) >= 2  # the fork server and a download

            process.kill()

            await until(lambda: not any(map(lives, family)))
            with pytest.raises(grpc.aio.AioRpcError):
                await reading
    assert len(files_in(tmp_path)) == 1  # the killed service could not clean up

    with running(tmp_path) as (_, address):
        async with grpc.aio.insecure_channel(address) as channel:
            await ready(channel)
            assert files_in(tmp_path) == []


def test_the_service_itself_never_loads_yt_dlp() -> None:
    script = "import downloader.__main__, sys; print('yt_dlp' in sys.modules)"

    output = subprocess.check_output([sys.executable, "-c", script], env=PYTHONPATH, text=True)

    assert output.strip() == "False"
