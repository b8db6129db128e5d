"""How soon the first media byte comes, and what two hundred bad downloads, twice, leave behind.

Every source is on loopback. The service is warm: it runs and has loaded yt-dlp. The other column is
yt-dlp's own command, which has to load itself first.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

import click
import grpc
import psutil

from benchmarks.download_sources import running_site
from benchmarks.download_torture import Torture, torture
from cli.channel import is_serving
from mesh.addresses import free_ports
from ytcaption.v1 import downloader_service_pb2 as pb
from ytcaption.v1 import downloader_service_pb2_grpc as rpc

SOURCES = {"file": "good.mp3", "HLS": "talk.m3u8", "DASH": "talk.mpd", "page": "page"}
GOAL_SECONDS = 0.3
START_SECONDS = 60
COMMAND_RUNS = 3


@asynccontextmanager
async def running_downloader(folder: Path) -> AsyncIterator[tuple[psutil.Process, str]]:
    """The real service on a port of its own, and the process it is."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    environment = {
        **os.environ,
        "DOWNLOADER_LISTEN": address,
        "DOWNLOADER_METRICS_LISTEN": "",
        "DOWNLOADER_WORK_DIR": str(folder),
        "DOWNLOADER_ALLOW_PRIVATE_ADDRESSES": "true",
        "DOWNLOADER_LOG_LEVEL": "ERROR",
    }
    process = psutil.Popen([sys.executable, "-m", "downloader"], env=environment)
    try:
        async with asyncio.timeout(START_SECONDS):
            while not await is_serving(address):  # noqa: ASYNC110 - another process sets no events
                await asyncio.sleep(0.1)
        yield psutil.Process(process.pid), address
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 20)


async def first_bytes(channel: grpc.aio.Channel, url: str, runs: int) -> list[float]:
    """Seconds from request to first byte, one call after the other; the first is not counted."""
    stub = rpc.DownloaderServiceStub(channel)
    return [await _first_byte(stub, url) for _ in range(runs + 1)][1:]


async def _first_byte(stub: rpc.DownloaderServiceStub, url: str) -> float:
    began = perf_counter()
    call = stub.Download(pb.DownloadRequest(source_url=url))
    try:
        async for event in call:
            if event.chunk:
                return perf_counter() - began
    finally:
        call.cancel()
    raise RuntimeError(f"no byte came from {url}")


def command_first_byte(url: str) -> float:
    """The same of `yt-dlp -o -`."""
    options = ("--ignore-config", "--no-plugin-dirs", "--quiet", "-f", "bestaudio/best", "-o", "-")
    began = perf_counter()
    command = [sys.executable, "-m", "yt_dlp", *options, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        process.stdout.read(1)
        took = perf_counter() - began
        process.kill()
    return took


def table(rows: Iterable[tuple[str, list[float], list[float]]]) -> str:
    """What a person reads."""
    lines = ["Seconds from request to first media byte, local source, warm downloader"]
    lines.append(f"{'source':8} {'median':>8} {'worst':>8} {'yt-dlp -o -':>12}")
    for name, ours, theirs in rows:
        command = f"{statistics.median(theirs):12.2f}" if theirs else f"{'-':>12}"
        lines.append(f"{name:8} {statistics.median(ours):8.3f} {max(ours):8.3f} {command}")
    return "\n".join(lines)


def event_log(done: Torture) -> str:
    """How the torture went."""
    lines = [f"{sum(done.ends.values())} downloads: " + ", ".join(sorted(_counted(done)))]
    for name in ("processes", "descriptors", "files"):
        lines.append(f"{name}: {getattr(done.before, name)} -> {getattr(done.after, name)}")
    looks = (done.before, done.halfway, done.after)
    for name, whose in (("service", "service"), ("children", "fork server")):
        sizes = (f"{getattr(look, name) / 1e6:.1f}" for look in looks)
        lines.append(f"resident MB of the {whose}, before, halfway, after: {', '.join(sizes)}")
    return "\n".join(lines)


def _counted(done: Torture) -> Iterable[str]:
    return (f"{count} {end}" for end, count in done.ends.items())


async def _run(runs: int, downloads: int) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        async with (
            running_site() as site,
            running_downloader(work) as (process, address),
            grpc.aio.insecure_channel(address) as channel,
        ):
            soon = await _race(channel, site, runs) if runs else True
            if not downloads:
                return soon
            done = await torture(channel, process, site, work, downloads)
    click.echo(event_log(done))
    for fault in done.faults():
        click.echo(f"fault: {fault}")
    return soon and not done.faults()


async def _race(channel: grpc.aio.Channel, site: str, runs: int) -> bool:
    rows = []
    for name, path in SOURCES.items():
        url = f"{site}/{path}"
        ours = await first_bytes(channel, url, runs)
        theirs = [await asyncio.to_thread(command_first_byte, url) for _ in range(COMMAND_RUNS)]
        rows.append((name, ours, theirs))
    click.echo(table(rows))
    return all(statistics.median(ours) <= GOAL_SECONDS for _, ours, _ in rows)


@click.command(help=__doc__)
@click.option("--runs", type=click.IntRange(min=0), default=20, show_default=True)
@click.option(
    "--downloads", type=click.IntRange(min=0), default=200, show_default=True, help="In each half."
)
def main(runs: int, downloads: int) -> None:
    """Measures, prints, and fails if it is not good enough."""
    if not asyncio.run(_run(runs, downloads)):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
