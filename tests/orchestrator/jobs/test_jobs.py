"""A job from acceptance to its end."""

import asyncio

from prometheus_client import REGISTRY

from mesh.errors import SourceRefusedError
from mesh.reasons import Reason
from orchestrator.pipeline.stages import STAGES, stage_name
from tests.support.client import Client
from tests.support.scripted import SECOND, Script
from tests.support.segments import TEXT
from ytcaption.v1 import event_pb2, job_pb2, media_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb


async def test_a_job_that_succeeds_has_text_audio_and_metadata(client: Client) -> None:
    job = await client.finished((await client.create()).job_id)

    assert job.state == job_pb2.JOB_STATE_SUCCEEDED
    assert [stage.state for stage in job.stages] == [job_pb2.STAGE_STATE_COMPLETED] * len(STAGES)
    assert (job.media.title, job.model, job.language) == ("A talk", "scripted", "en")
    assert job.media.duration.ToSeconds() == 6
    assert [found.option for found in job.applied_filters] == ["remove_noise"]
    assert (job.progress, job.segment_count, job.attempt) == (1.0, 6, 1)
    assert await client.text(job.job_id) == TEXT
    request = pb.DownloadArtifactRequest(job_id=job.job_id, name=job.artifacts[0].name)
    frames = [frame async for frame in client.pipeline.DownloadArtifact(request)]
    assert sum(len(frame.chunk) for frame in frames) == job.artifacts[0].size_bytes == 600


async def test_the_stored_job_equals_the_one_its_event_log_ended_with(client: Client) -> None:
    logged = await client.finished((await client.create()).job_id)

    async def stored() -> job_pb2.Job:
        while True:
            job = await client.job(logged.job_id)
            if job.state == logged.state:
                return job

    job = await asyncio.wait_for(stored(), 60)
    job.update_time.CopyFrom(logged.update_time)
    assert job == logged


async def test_the_event_log_has_every_event_in_order(client: Client) -> None:
    job = await client.create(correlation_id="thread-7")
    events = await client.events(job.job_id)
    kinds = [event_pb2.EventType.Name(event.type).removeprefix("EVENT_TYPE_") for event in events]

    assert kinds[:3] == ["JOB_ACCEPTED", "ATTEMPT_STARTED", "START_COLLECTION"]
    assert kinds[-2:] == ["EXECUTION_RESULT", "JOB_FINISHED"]
    assert kinds.count("SEGMENT_SETTLED") == 6
    for once in ("MEDIA_FOUND", "COLLECTION_RESULT", "START_EXECUTION"):
        assert kinds.count(once) == 1
    assert kinds.count("STAGE_CHANGED") == 2 * len(STAGES)
    assert {event.correlation_id for event in events} == {"thread-7"}
    assert len({event.event_id for event in events}) == len(events)


async def test_the_correlation_id_reaches_the_stages(client: Client, script: Script) -> None:
    await client.finished((await client.create(correlation_id="thread-8")).job_id)

    assert script.correlation_ids == ["thread-8"]


async def test_download_options_reach_the_downloader(client: Client, script: Script) -> None:
    wished = media_pb2.DownloadOptions(user_agent="me", max_bytes_per_second=5, proxy="http://p")
    job = await client.create(options=job_pb2.JobOptions(download=wished))
    await client.finished(job.job_id)

    assert script.download_options == [wished]


async def test_a_request_id_sent_twice_returns_the_first_job(client: Client) -> None:
    jobs = await asyncio.gather(*(client.create(request_id="once") for _ in range(5)))
    later = await client.create("http://example.test/other.mp3", request_id="once")

    assert {job.job_id for job in [*jobs, later]} == {jobs[0].job_id}


async def test_a_job_just_created_is_visible_at_once(client: Client) -> None:
    for _ in range(20):
        job = await client.create()
        listed = await client.pipeline.ListJobs(pb.ListJobsRequest(page_size=1))
        assert (await client.job(job.job_id)).job_id == listed.jobs[0].job_id == job.job_id


async def test_pages_list_every_job_once_newest_first(client: Client) -> None:
    made = [(await client.create()).job_id for _ in range(7)]
    listed: list[str] = []
    token = ""
    while True:
        page = await client.pipeline.ListJobs(pb.ListJobsRequest(page_size=3, page_token=token))
        assert page.total_size == 7
        listed += [job.job_id for job in page.jobs]
        token = page.next_page_token
        if not token:
            break

    assert listed == made[::-1]


async def test_a_state_filter_lists_only_that_state(client: Client, script: Script) -> None:
    done = await client.create()
    await client.finished(done.job_id)
    script.failures = [SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)]
    failed = await client.finished((await client.create()).job_id)

    request = pb.ListJobsRequest(states=[job_pb2.JOB_STATE_FAILED])
    listed = await client.pipeline.ListJobs(request)

    assert [job.job_id for job in listed.jobs] == [failed.job_id]
    assert listed.total_size == 1


async def test_progress_never_falls(client: Client, script: Script) -> None:
    script.seconds = 40
    job = await client.create()
    shares: list[float] = []
    counted: list[list[float]] = []
    async for seen in client.watch(job.job_id):
        if seen.HasField("progress"):
            shares.append(seen.progress.progress)
            counted.append([_amount(stage) for stage in seen.progress.stages])

    assert shares == sorted(shares)
    for stage in zip(*counted, strict=True):
        assert list(stage) == sorted(stage)


def _amount(stage: job_pb2.StageStatus) -> float:
    return (
        stage.progress.bytes.done_bytes or stage.progress.media.done.ToTimedelta().total_seconds()
    )


async def test_an_uploaded_file_is_transcribed_like_a_download(
    client: Client, script: Script
) -> None:
    data = SECOND * 3
    job = await client.upload(*[SECOND] * 3, file_name="../../etc/talk.wav", size_bytes=len(data))
    ended = await client.finished(job.job_id)

    assert ended.state == job_pb2.JOB_STATE_SUCCEEDED
    assert ended.source.upload.file_name == "talk.wav"
    assert ended.source.upload.size_bytes == len(data)
    assert ended.stages[0].progress.bytes.done_bytes == len(data)
    assert script.downloads == []
    assert await client.text(job.job_id) == "word 1\nword 2\nword 3\n"


async def test_a_live_stream_is_transcribed_while_it_is_still_sent(client: Client) -> None:
    settled = asyncio.Event()

    async def frames() -> "asyncio.AsyncIterator[pb.TranscribeStreamRequest]":  # type: ignore[name-defined]
        yield pb.TranscribeStreamRequest(start=pb.TranscribeStreamStart())
        yield pb.TranscribeStreamRequest(chunk=SECOND)
        await settled.wait()
        yield pb.TranscribeStreamRequest(chunk=SECOND)

    words = []
    async for response in client.pipeline.TranscribeStream(frames()):
        if response.HasField("segment"):
            words.append(response.segment.text)
            settled.set()

    assert words == ["word 1", "word 2"]
    assert response.finished.language == "en"


async def test_stages_and_ends_are_counted_for_prometheus(client: Client, script: Script) -> None:
    def count(name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(name, labels) or 0

    stages = [stage_name(stage.id) for stage in STAGES]
    before = [count("ytcaption_stage_seconds_count", stage=s, state="completed") for s in stages]
    succeeded = count("ytcaption_jobs_ended_total", state="succeeded", reason="")
    refused = count("ytcaption_jobs_ended_total", state="failed", reason="VIDEO_PRIVATE")

    await client.finished((await client.create()).job_id)
    script.failures = [SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)]
    await client.finished((await client.create()).job_id)

    after = [count("ytcaption_stage_seconds_count", stage=s, state="completed") for s in stages]
    assert after == [known + 1 for known in before]
    assert count("ytcaption_jobs_ended_total", state="succeeded", reason="") == succeeded + 1
    private = count("ytcaption_jobs_ended_total", state="failed", reason="VIDEO_PRIVATE")
    assert private == refused + 1
