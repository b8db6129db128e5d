"""Invalid input gets its own reason and no pointless retry, and the mesh keeps serving."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import imageio_ffmpeg
import pytest

from mesh.addresses import free_ports
from mesh.frames import truthful
from mesh.status import reason_of
from tests.conftest import DATA
from tests.support.client import Client
from tests.support.site import Site
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

InvalidInput = Callable[[Client, Site], Awaitable[job_pb2.Job]]
HTML = b"<!doctype html><title>Hello</title><p>No video here.</p>"
TEXT = b"This is not music, whatever its name says. " * 500


def address(url: str) -> InvalidInput:
    return lambda client, site: client.create(url.format(site=site.url, closed=free_ports(1)[0]))


def page(path: str, body: bytes, content_type: str) -> InvalidInput:
    return lambda client, site: client.create(site.page(path, body, content_type))


def file(name: str, body: bytes) -> InvalidInput:
    return lambda client, site: client.upload(body, file_name=name)


def option(**options: object) -> InvalidInput:
    asked = job_pb2.JobOptions(**options)  # type: ignore[arg-type]
    return lambda client, site: client.create(f"{site.url}/files/short.ogg", options=asked)


async def truncated_mp4(client: Client, site: Site) -> job_pb2.Job:
    """An MP4 cut off before its index, which is at the end."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/film.mp4"
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error"]
        command += ["-i", str(DATA / "short.ogg"), "-c:a", "aac", path]
        await (await asyncio.create_subprocess_exec(*command)).wait()
        whole = Path(path).read_bytes()  # noqa: ASYNC240 # a few kilobytes
    return await client.upload(whole[: len(whole) * 2 // 3], file_name="film.mp4")


async def chunk_before_start(client: Client, site: Site) -> job_pb2.Job:
    async def frames() -> AsyncIterator[pb.CreateJobFromUploadRequest]:
        yield pb.CreateJobFromUploadRequest(chunk=b"x")

    return (await truthful(client.pipeline.CreateJobFromUpload(frames()))).job


async def start_twice(client: Client, site: Site) -> job_pb2.Job:
    async def frames() -> AsyncIterator[pb.CreateJobFromUploadRequest]:
        for _ in range(2):
            yield pb.CreateJobFromUploadRequest(start=pb.UploadStart(file_name="x"))

    return (await truthful(client.pipeline.CreateJobFromUpload(frames()))).job


@pytest.mark.parametrize(
    ("submit", "reason"),
    [
        pytest.param(address("certainly not a URL"), "UNSUPPORTED_URL", id="not a URL"),
        pytest.param(address("ftp://example.test/x.mp3"), "UNSUPPORTED_URL", id="ftp"),
        pytest.param(file("x.wav", b""), "EMPTY_MEDIA", id="empty file"),
        pytest.param(option(language="klingon"), "LANGUAGE_UNKNOWN", id="unknown language"),
        pytest.param(
            option(language="en", mixed_languages=True), "REQUEST_INVALID", id="contradiction"
        ),
        pytest.param(option(language_out="fr"), "TRANSLATION_UNSUPPORTED", id="translation"),
        pytest.param(option(beam_size=99), "REQUEST_INVALID", id="beam out of range"),
        pytest.param(chunk_before_start, "START_MISSING", id="chunk before start"),
        pytest.param(start_twice, "START_REPEATED", id="start twice"),
        pytest.param(file("x.wav", b"x" * 65_537), "FRAME_TOO_LARGE", id="frame too large"),
    ],
)
async def test_invalid_requests_are_refused_with_their_reason(
    client: Client, site: Site, submit: InvalidInput, reason: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await submit(client, site)

    assert reason_of(caught.value) == reason
    await _still_serves(client, site)


@pytest.mark.parametrize(
    ("submit", "reason", "stage", "attempts"),
    [
        pytest.param(
            address("http://127.0.0.1:{closed}/x.mp3"), "HOST_UNREACHABLE", "DOWNLOAD", 4,
            id="unreachable host",
        ),
        pytest.param(address("{site}/gone.mp3"), "VIDEO_NOT_FOUND", "DOWNLOAD", 1, id="404"),
        pytest.param(
            page("/page", HTML, "text/html"), "UNSUPPORTED_URL", "DOWNLOAD", 1, id="HTML page"
        ),
        pytest.param(
            page("/empty.mp3", b"", "audio/mpeg"), "EMPTY_MEDIA", "DOWNLOAD", 1, id="empty media"
        ),
        pytest.param(
            page("/text.mp3", TEXT, "audio/mpeg"), "NOT_MEDIA", "NORMALIZATION", 1,
            id="text served as mp3",
        ),
        pytest.param(
            file("text.mp3", TEXT), "NOT_MEDIA", "NORMALIZATION", 1, id="text file named .mp3"
        ),
        pytest.param(truncated_mp4, "CORRUPT_MEDIA", "NORMALIZATION", 1, id="truncated mp4"),
    ],
)  # fmt: skip
async def test_bad_media_fails_the_job_with_its_reason(  # noqa: PLR0913 # one row of the table
    client: Client, site: Site, submit: InvalidInput, reason: str, stage: str, attempts: int
) -> None:
    job = await submit(client, site)
    ended = await client.finished(job.job_id)

    assert ended.state == job_pb2.JOB_STATE_FAILED
    assert ended.failure.reason == reason
    assert ended.failure.message
    assert ended.failure.stage == job_pb2.Stage.Value(f"STAGE_{stage}")
    assert (ended.attempt, ended.failure.retryable) == (attempts, attempts > 1)
    await _still_serves(client, site)


async def _still_serves(client: Client, site: Site) -> None:
    listed = await client.pipeline.ListJobs(pb.ListJobsRequest(page_size=1))
    assert listed.total_size >= len(listed.jobs)


async def test_a_good_job_still_succeeds_afterwards(client: Client, spoken_url: str) -> None:
    ended = await client.finished((await client.create(spoken_url)).job_id)

    assert ended.state == job_pb2.JOB_STATE_SUCCEEDED
