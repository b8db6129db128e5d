"""Cancel in each stage: afterwards no process works for the job."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest
from imageio_ffmpeg import get_ffmpeg_exe

from benchmarks.processes import service_of
from tests.conftest import DATA, RealMesh
from tests.end_to_end.spoken import chunks_of
from tests.support.client import Client
from tests.support.polling import until
from tests.support.processes import command_line, lives
from tests.support.site import Site
from ytcaption.v1 import event_pb2, job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

REST_SECONDS = 1.0
BUSY_SHARE = 0.3
"""A busy decoder uses more than this share of the time."""


class Workers:
    """Processes that services started for jobs, beyond those of an idle mesh."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._idle = {process.pid for process in self._below("downloader", "normalizer")}

    def _below(self, *services: str) -> Iterator[psutil.Process]:
        for process in self._root.children(recursive=True):
            try:
                if service_of(process.cmdline()) in services:
                    yield from process.children(recursive=True)
            except psutil.NoSuchProcess:
                continue

    def of(self, service: str) -> list[psutil.Process]:
        """The living worker processes of a service."""
        return [p for p in self._below(service) if p.pid not in self._idle and lives(p)]

    def tree(self, service: str) -> list[psutil.Process]:
        """The process of a service and its descendants."""
        (own,) = (
            found
            for found in self._root.children(recursive=True)
            if service_of(command_line(found)) == service
        )
        return [own, *own.children(recursive=True)]


def _seconds_used(process: psutil.Process) -> float:
    """Processor time of a process; 0 if it is gone."""
    try:
        used = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return used.user + used.system


@pytest.fixture
async def workers(real_mesh: RealMesh, client: Client, spoken_url: str) -> Workers:
    await client.finished(
        (await client.create(spoken_url)).job_id
    )  # long-lived processes are started
    return Workers(real_mesh.pid)


@pytest.fixture
def held_url(site: Site) -> Iterator[str]:
    """An address that sends two thirds of a file and then stalls."""
    site.release.clear()
    yield f"{site.url}/held/sample.ogg"
    site.release.set()


async def cancelled(client: Client, job_id: str) -> job_pb2.Job:
    request = pb.CancelJobRequest(job_id=job_id, note="enough")
    return (await client.pipeline.CancelJob(request)).job


async def segments(client: Client, job_id: str) -> AsyncIterator[str]:
    async for seen in client.watch(job_id):
        if seen.event.type == event_pb2.EVENT_TYPE_SEGMENT_SETTLED:
            yield seen.event.segment_settled.segment.text


async def test_cancel_while_downloading_leaves_no_child_and_keeps_captions_so_far(
    client: Client, workers: Workers, held_url: str
) -> None:
    job = await client.create(held_url)
    first = await anext(segments(client, job.job_id))
    assert workers.of("downloader")  # it waits for the last third
    assert workers.of("normalizer")

    ended = await cancelled(client, job.job_id)

    await until(lambda: not workers.of("downloader"))
    await until(lambda: not workers.of("normalizer"))
    assert (ended.state, ended.cancel_note) == (job_pb2.JOB_STATE_CANCELLED, "enough")
    assert (await client.text(job.job_id)).startswith(first)


@pytest.fixture(scope="module")
def long_recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Looped speech: minutes of work for the decoder, and seconds for ffmpeg."""
    path = tmp_path_factory.mktemp("media") / "long.ogg"
    source = ["-stream_loop", "-1", "-i", str(DATA / "sample.ogg"), "-t", "1800"]
    command = [get_ffmpeg_exe(), "-v", "error", "-nostdin", *source, "-c", "copy", str(path)]
    subprocess.run(command, check=True, timeout=240)
    return path


async def test_cancel_while_ffmpeg_runs_leaves_no_ffmpeg(
    client: Client, workers: Workers, long_recording: Path
) -> None:
    job = await client.upload(*chunks_of(long_recording), file_name="long.ogg")
    await until(lambda: any("ffmpeg" in p.name() for p in workers.of("normalizer")))

    ended = await cancelled(client, job.job_id)

    await until(lambda: not workers.of("normalizer"))
    assert ended.state == job_pb2.JOB_STATE_CANCELLED


async def test_cancel_while_decoding_leaves_no_decoder_at_work(
    client: Client, workers: Workers, long_recording: Path, spoken_url: str
) -> None:
    job, texts = await start_transcribing(client, long_recording)
    at_work = workers.tree("transcriber")
    spent = sum(map(_seconds_used, at_work))
    await until(lambda: sum(map(_seconds_used, at_work)) > spent + BUSY_SHARE)

    ended = await cancelled(client, job.job_id)

    async def at_rest() -> bool:
        before = sum(map(_seconds_used, filter(lives, at_work)))
        await asyncio.sleep(REST_SECONDS)
        now = sum(map(_seconds_used, filter(lives, at_work)))
        return now - before < BUSY_SHARE * REST_SECONDS

    # A new decoder may be loading, but none of those that were at work may still be.
    await until(at_rest)
    await until(lambda: not workers.of("normalizer"))
    assert ended.state == job_pb2.JOB_STATE_CANCELLED
    assert (await client.text(job.job_id)).splitlines()[:3] == texts
    after = await client.finished((await client.create(spoken_url)).job_id)
    assert after.state == job_pb2.JOB_STATE_SUCCEEDED


async def test_cancelling_one_job_changes_nothing_in_the_text_of_another(
    client: Client, workers: Workers, long_recording: Path, site: Site
) -> None:
    url = f"{site.url}/files/sample.ogg"
    alone = await client.finished((await client.create(url)).job_id)
    job, _ = await start_transcribing(client, long_recording)
    other = await client.create(url)
    await anext(segments(client, other.job_id))

    await cancelled(client, job.job_id)

    assert (await client.finished(other.job_id)).state == job_pb2.JOB_STATE_SUCCEEDED
    assert await client.text(other.job_id) == await client.text(alone.job_id)


async def start_transcribing(client: Client, path: Path) -> tuple[job_pb2.Job, list[str]]:
    """A job in the middle of its recording, and its first three segments."""
    job = await client.upload(*chunks_of(path), file_name=path.name)
    texts: list[str] = []
    async for text in segments(client, job.job_id):
        texts.append(text)
        if len(texts) == 3:
            break
    return job, texts
