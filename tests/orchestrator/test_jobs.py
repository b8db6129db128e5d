"""A job from acceptance to its end."""

import asyncio

import grpc
import pytest
from nats.js.errors import NotFoundError
from prometheus_client import REGISTRY

from mesh.bus import Bus
from mesh.errors import SourceRefusedError, UnavailableError
from mesh.reasons import Reason
from mesh.status import reason_of
from tests.client import URL, Client
from tests.orchestrator.conftest import Start
from tests.orchestrator.scripted import SECOND, Script
from ytcaption.v1 import event_pb2, job_pb2, media_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

TEXT = "".join(f"word {second}\n" for second in range(1, 7))


async def test_a_job_succeeds_and_keeps_text_audio_and_facts(client: Client) -> None:
    job = await client.finished((await client.create()).job_id)

    assert job.state == job_pb2.JOB_STATE_SUCCEEDED
    assert [stage.state for stage in job.stages] == [job_pb2.STAGE_STATE_COMPLETED] * 3
    assert (job.media.title, job.model, job.language) == ("A talk", "scripted", "en")
    assert job.media.duration.ToSeconds() == 6
    assert [found.option for found in job.applied_filters] == ["remove_noise"]
    assert (job.progress, job.segment_count, job.attempt) == (1.0, 6, 1)
    assert await client.text(job.job_id) == TEXT
    kept = pb.DownloadArtifactRequest(job_id=job.job_id, name=job.artifacts[0].name)
    frames = [frame async for frame in client.pipeline.DownloadArtifact(kept)]
    assert sum(len(frame.chunk) for frame in frames) == job.artifacts[0].size_bytes == 600


async def test_the_stored_job_equals_the_one_its_story_ended_with(client: Client) -> None:
    told = await client.finished((await client.create()).job_id)

    async def stored() -> job_pb2.Job:
        while True:
            job = await client.job(told.job_id)
            if job.state == told.state:
                return job

    job = await asyncio.wait_for(stored(), 5)
    job.update_time.CopyFrom(told.update_time)
    assert job == told


async def test_the_story_tells_everything_in_order(client: Client) -> None:
    job = await client.create(correlation_id="thread-7")
    events = await client.events(job.job_id)
    kinds = [event_pb2.EventType.Name(event.type).removeprefix("EVENT_TYPE_") for event in events]

    assert kinds[:3] == ["JOB_ACCEPTED", "ATTEMPT_STARTED", "START_COLLECTION"]
    assert kinds[-2:] == ["EXECUTION_RESULT", "JOB_FINISHED"]
    assert kinds.count("SEGMENT_SETTLED") == 6
    for once in ("MEDIA_FOUND", "COLLECTION_RESULT", "START_EXECUTION"):
        assert kinds.count(once) == 1
    assert kinds.count("STAGE_CHANGED") == 6
    assert {event.correlation_id for event in events} == {"thread-7"}
    assert len({event.event_id for event in events}) == len(events)


async def test_the_correlation_id_reaches_the_stages(client: Client, script: Script) -> None:
    await client.finished((await client.create(correlation_id="thread-8")).job_id)

    assert script.correlation_ids == ["thread-8"]


async def test_how_the_site_is_to_be_asked_reaches_the_downloader(
    client: Client, script: Script
) -> None:
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


async def test_a_permanent_reason_is_not_tried_again(
    client: Client, script: Script, bus: Bus
) -> None:
    script.failures = [SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE)]

    job = await client.finished((await client.create()).job_id)

    assert job.state == job_pb2.JOB_STATE_FAILED
    assert (job.failure.reason, job.failure.retryable) == ("VIDEO_PRIVATE", False)
    assert job.failure.stage == job_pb2.STAGE_DOWNLOAD
    assert job.stages[0].state == job_pb2.STAGE_STATE_FAILED
    assert script.downloads == [URL]
    assert await _dead_letters(bus, job.job_id) == 1


async def test_a_passing_reason_is_tried_as_often_as_configured(
    client: Client, script: Script, bus: Bus
) -> None:
    script.failures = [UnavailableError("busy", reason=Reason.SITE_ERROR) for _ in range(9)]

    job = await client.finished((await client.create()).job_id)

    assert (job.state, job.attempt) == (job_pb2.JOB_STATE_FAILED, 4)
    assert len(script.downloads) == job.max_attempts == 4
    assert await _dead_letters(bus, job.job_id) == 1


async def test_a_passing_reason_that_passes_leaves_a_good_job(
    client: Client, script: Script, bus: Bus
) -> None:
    script.failures = [UnavailableError("busy", reason=Reason.SITE_ERROR)]

    job = await client.finished((await client.create()).job_id)

    assert (job.state, job.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 2)
    assert not job.HasField("failure")
    assert await client.text(job.job_id) == TEXT
    assert await _dead_letters(bus, job.job_id) == 0


async def test_the_next_attempt_waits_as_long_as_the_site_asked(
    client: Client, script: Script
) -> None:
    script.failures = [
        UnavailableError("slow down", reason=Reason.RATE_LIMITED, retry_after_seconds=20)
    ]
    job = await client.create()
    async for seen in client.watch(job.job_id):
        if seen.event.HasField("attempt_failed"):
            break

    failed = seen.event.attempt_failed
    assert failed.failure.reason == "RATE_LIMITED"
    wait = failed.retry_time.ToDatetime() - seen.event.timestamp.ToDatetime()
    assert 19 < wait.total_seconds() < 21


async def _dead_letters(bus: Bus, job_id: str) -> int:
    names = bus.names
    letters = bus.read(names.dead_letter_stream, names.dead_letter(job_id))
    return len([letter async for letter in letters])


async def test_a_stage_that_stands_still_is_named(start: Start, script: Script) -> None:
    script.pause_download_at = 2
    async with start(stall_seconds=0.3, max_attempts=1) as client:
        job = await client.finished((await client.create()).job_id)

    assert (job.failure.reason, job.failure.stage) == ("STALLED", job_pb2.STAGE_DOWNLOAD)
    assert job.stages[0].state == job_pb2.STAGE_STATE_TIMED_OUT


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


async def test_an_uploaded_file_is_heard_like_an_address(client: Client, script: Script) -> None:
    data = SECOND * 3
    job = await client.upload(*[SECOND] * 3, file_name="../../etc/talk.wav", size_bytes=len(data))
    ended = await client.finished(job.job_id)

    assert ended.state == job_pb2.JOB_STATE_SUCCEEDED
    assert ended.source.upload.file_name == "talk.wav"
    assert ended.source.upload.size_bytes == len(data)
    assert ended.stages[0].progress.bytes.done_bytes == len(data)
    assert script.downloads == []
    assert await client.text(job.job_id) == "word 1\nword 2\nword 3\n"


async def test_a_stream_is_heard_while_it_is_still_sent(client: Client) -> None:
    heard = asyncio.Event()

    async def frames() -> "asyncio.AsyncIterator[pb.TranscribeStreamRequest]":  # type: ignore[name-defined]
        yield pb.TranscribeStreamRequest(start=pb.TranscribeStreamStart())
        yield pb.TranscribeStreamRequest(chunk=SECOND)
        await heard.wait()
        yield pb.TranscribeStreamRequest(chunk=SECOND)

    words = []
    async for response in client.pipeline.TranscribeStream(frames()):
        if response.HasField("segment"):
            words.append(response.segment.text)
            heard.set()

    assert words == ["word 1", "word 2"]
    assert response.finished.language == "en"


async def test_a_deleted_job_leaves_no_trace(client: Client, bus: Bus) -> None:
    job = await client.upload(SECOND, file_name="x.wav", request_id="mine")
    await client.finished(job.job_id)

    removed = await client.pipeline.DeleteJob(pb.DeleteJobRequest(job_id=job.job_id))

    assert (removed.events_removed > 5, removed.artifacts_removed) == (True, 3)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.job(job.job_id)
    assert reason_of(caught.value) == "JOB_NOT_FOUND"
    names = bus.names
    for stream in names.streams():
        async for stored in bus.read(stream, ">"):
            assert stored.deleted or job.job_id not in stored.subject
            assert job.job_id.encode() not in stored.data
    assert (await client.create(request_id="mine")).job_id != job.job_id


async def test_a_job_cancelled_while_it_runs_keeps_what_was_heard(
    client: Client, script: Script
) -> None:
    script.pause_before_segment = 3
    job = await client.create()
    async for seen in client.watch(job.job_id):
        if seen.event.segment_settled.segment.index == 2:
            break

    request = pb.CancelJobRequest(job_id=job.job_id, note="enough")
    ended = (await client.pipeline.CancelJob(request)).job

    assert (ended.state, ended.cancel_note) == (job_pb2.JOB_STATE_CANCELLED, "enough")
    await asyncio.wait_for(script.stopped.wait(), 1)
    assert await client.text(job.job_id) == "word 1\nword 2\nword 3\n"


async def test_a_queued_job_is_cancelled_without_a_runner(
    start: Start, script: Script, bus: Bus
) -> None:
    script.pause_before_segment = 0
    async with start(prefix="OTHER", concurrency=1) as client:
        running = await client.create()
        await asyncio.wait_for(script.paused.wait(), 5)
        queued = await client.create()

        ended = (await client.pipeline.CancelJob(pb.CancelJobRequest(job_id=queued.job_id))).job

        assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_CANCELLED, 0)
        assert (await client.job(running.job_id)).state == job_pb2.JOB_STATE_RUNNING
        with pytest.raises(NotFoundError):
            await bus.jetstream.get_last_msg("OTHER_WORK", f"other.work.{queued.job_id}")


async def test_stages_and_ends_are_counted_for_prometheus(client: Client, script: Script) -> None:
    def count(name: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(name, labels) or 0

    stages = ("download", "normalization", "transcription")
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
