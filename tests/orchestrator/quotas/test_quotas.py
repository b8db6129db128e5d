"""Quotas: each limit refuses, or lets wait, what is over it, on all orchestrators together."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import time
from typing import Any

import grpc
import pytest
from nats.aio.msg import Msg

from mesh.bus import Bus
from mesh.errors import LimitExceededError, MeshError
from mesh.frames import truthful
from mesh.reasons import Reason
from mesh.status import to_error
from orchestrator.queue.work_queue import id_of_subject
from orchestrator.quotas import quotas
from orchestrator.quotas.claims import LEASE_SECONDS
from orchestrator.quotas.quotas import Quotas
from orchestrator.quotas.records import QuotaStore
from orchestrator.quotas.usage import DAY_SECONDS, QUEUED_JOBS, UsageTable
from orchestrator.worker.retry import Backoff
from tests.orchestrator.conftest import Start
from tests.orchestrator.webhooks.receiver import SECRET, receiving
from tests.support.client import URL, Client
from tests.support.http import running_gateway
from tests.support.polling import until
from tests.support.scripted import SECOND, Script
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import collection_pb2, job_pb2, quota_pb2
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import quota_service_pb2 as quota_api

QUEUED, SUCCEEDED = job_pb2.JOB_STATE_QUEUED, job_pb2.JOB_STATE_SUCCEEDED
HOUR = 3600


def url(name: object) -> str:
    return f"http://example.test/{name}"


async def refused(call: Any) -> MeshError:
    """The refusal of the call, whose reason is that a quota is used up."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    error = to_error(caught.value)
    assert isinstance(error, LimitExceededError)
    assert error.reason == Reason.QUOTA_EXCEEDED
    return error


KEPT = {"stored_bytes", "audio_hours"}
"""What an ended job uses."""


async def used(client: Client) -> dict[str, float]:
    """What is used of each limit, as far as something is."""
    found = await client.quotas.GetQuota(quota_api.GetQuotaRequest())
    return {quotas.name_of(one.limit): one.used for one in found.quotas if one.used}


async def busy(client: Client) -> dict[str, float]:
    """The same without what ended jobs use."""
    return {name: amount for name, amount in (await used(client)).items() if name not in KEPT}


async def override(client: Client, owner: str = "", **limits: float) -> None:
    request = quota_api.SetQuotaRequest(owner=owner)
    for name, maximum in limits.items():
        limit = quota_pb2.QuotaLimit.Value(f"QUOTA_LIMIT_{name.upper()}")
        request.overrides.add(limit=limit, maximum=maximum)
    await client.quotas.SetQuota(request)


@asynccontextmanager
async def runner_busy(client: Client, script: Script) -> AsyncIterator[None]:
    """The only slot is taken inside this block: jobs stay queued."""
    script.pause_download_at = 0
    await client.create(url("first"))
    await script.until_paused()
    yield
    script.pause_download_at = None
    script.go_on.set()


async def stream(client: Client, settled: asyncio.Event, end: asyncio.Event) -> None:
    """A live stream of a second that stays open."""

    async def frames() -> AsyncIterator[pb.TranscribeStreamRequest]:
        yield pb.TranscribeStreamRequest(start=pb.TranscribeStreamStart())
        yield pb.TranscribeStreamRequest(chunk=SECOND)
        await end.wait()

    async for response in truthful(client.pipeline.TranscribeStream(frames())):
        if response.HasField("segment"):
            settled.set()


async def test_a_job_over_the_limit_of_queued_jobs_is_refused_until_one_is_gone(
    start: Start, script: Script
) -> None:
    async with start(concurrency=1, quota_queued_jobs=2) as client:
        async with runner_busy(client, script):
            first = await client.create(url(1), request_id="one")
            await client.create(url(2))
            error = await refused(client.create(url(3)))
            again = await client.create(url(1), request_id="one")
            await client.pipeline.CancelJob(pb.CancelJobRequest(job_id=first.job_id))
            admitted = await client.create(url(3))

            assert error.metadata == {"limit": "queued_jobs", "maximum": "2", "used": "2"}
            assert error.retryable
            assert error.retry_after_seconds == quotas.PAUSES[QUEUED_JOBS]
            assert again.job_id == first.job_id
            assert (await used(client))["queued_jobs"] == 2
        assert (await client.finished(admitted.job_id)).state == SUCCEEDED


async def test_two_orchestrators_together_admit_no_more_jobs_than_one(
    start: Start, script: Script
) -> None:
    limits = {"concurrency": 1, "quota_queued_jobs": 7}
    async with start(**limits) as one, start(**limits) as other:
        script.pause_download_at = 0
        running = [await client.create(url(f"busy-{n}")) for n, client in enumerate((one, other))]
        await until(lambda: script.waiting == 2)
        calls = [client.create(url(n)) for n in range(15) for client in (one, other)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        accepted = [job for job in results if isinstance(job, job_pb2.Job)]
        errors = [to_error(e) for e in results if isinstance(e, grpc.aio.AioRpcError)]

        assert len(accepted) == 7
        assert {error.reason for error in errors} == {Reason.QUOTA_EXCEEDED}
        assert len(errors) == 23
        script.pause_download_at = None
        script.go_on.set()
        for job in (*running, *accepted):
            assert (await one.finished(job.job_id)).state == SUCCEEDED
        assert not await busy(other)


async def test_what_is_used_outlives_the_orchestrators(start: Start, script: Script) -> None:
    async with start(concurrency=1, quota_queued_jobs=1) as client:
        script.pause_download_at = 0
        await client.create(url("first"))
        await script.until_paused()
        await client.create(url(1))
    async with start(concurrency=1, quota_queued_jobs=1) as client:
        await until(lambda: script.waiting == 1)
        assert (await refused(client.create(url(2)))).metadata["used"] == "1"
        script.go_on.set()


async def test_a_running_limit_lets_jobs_wait_and_loses_none(start: Start, script: Script) -> None:
    limits = {"concurrency": 4, "quota_running_jobs": 2}
    async with start(**limits) as one, start(**limits) as other:
        script.hanging = {url(n) for n in range(6)}
        jobs = [await one.create(url(n)) for n in range(6)]
        await until(lambda: script.waiting == 2)

        async def all_taken() -> bool:
            """Every job but the running ones was looked at, and waits."""
            return await busy(other) == {"queued_jobs": 4, "running_jobs": 2}

        await until(all_taken)
        most = 0

        async def ended() -> bool:
            nonlocal most
            most = max(most, int((await used(other)).get("running_jobs", 0)))
            return not await busy(one)

        script.hanging = set()
        script.go_on.set()
        await until(ended)
        states = [(await other.finished(job.job_id)).state for job in jobs]

    assert most <= 2
    assert states == [SUCCEEDED] * 6
    assert len(script.downloads) == 6


async def test_jobs_that_do_not_fit_among_the_waiting_go_back_and_are_never_given_up(
    start: Start, script: Script, broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotas, "MAX_WAITING", 0)
    monkeypatch.setattr("orchestrator.worker.runner.QUOTA_BACKOFF", Backoff(0.05, 0.05))
    async with start(quota_running_jobs=1, max_deliveries=6) as client:
        script.hanging = {url(0)}
        jobs = [await client.create(url(0))]
        await script.until_paused()
        jobs += [await client.create(url(n)) for n in range(1, 5)]
        deliveries = Counter[str]()

        async def on_item(message: Msg) -> None:
            deliveries[id_of_subject(message.subject)] += 1

        # Items are stored anew, and again: each of them after half the deliveries allowed.
        async with broker_bus.subscribed(broker_bus.names.work("*", "*"), on_item):
            await until(lambda: bool(deliveries) and deliveries.most_common(1)[0][1] >= 3)
        script.go_on.set()
        states = [(await client.finished(job.job_id)).state for job in jobs]

    assert states == [SUCCEEDED] * 5


async def test_a_job_that_waits_for_a_place_can_be_cancelled(start: Start, script: Script) -> None:
    async with start(concurrency=2, quota_running_jobs=1) as client:
        script.hanging = {url(0)}
        first = await client.create(url(0))
        await script.until_paused()
        second = await client.create(url(1))
        ended = await client.pipeline.CancelJob(pb.CancelJobRequest(job_id=second.job_id))
        script.go_on.set()

        assert ended.job.state == job_pb2.JOB_STATE_CANCELLED
        assert (await client.finished(first.job_id)).state == SUCCEEDED


async def test_of_the_waiting_jobs_of_an_owner_the_more_urgent_runs_first(
    start: Start, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines: list[Quotas] = []
    until_room = Quotas.until_room

    async def noted(engine: Quotas, job: job_pb2.Job) -> None:
        engines.append(engine)
        await until_room(engine, job)

    def waiting() -> int:
        return len(engines[0]._waiting.get("", ())) if engines else 0

    monkeypatch.setattr(Quotas, "until_room", noted)
    async with start(concurrency=2, quota_running_jobs=1) as client:
        script.hanging = {url(0)}
        await client.create(url(0))
        await script.until_paused()
        low = await client.create(url("low"), priority=job_pb2.PRIORITY_LOW)
        await client.create(url("high"), priority=job_pb2.PRIORITY_HIGH)
        await until(lambda: waiting() == 2)
        script.go_on.set()
        await client.finished(low.job_id)

    assert script.downloads == [url(0), url("high"), url("low")]


async def test_live_streams_are_counted_on_all_orchestrators_until_they_end(start: Start) -> None:
    async with start(quota_live_streams=1) as one, start(quota_live_streams=1) as other:
        settled, end = asyncio.Event(), asyncio.Event()
        opened = asyncio.create_task(stream(one, settled, end))
        await settled.wait()
        error = await refused(stream(other, asyncio.Event(), end))
        shown = await used(other)
        end.set()
        await opened
        await stream(other, settled, end)

    assert error.metadata["limit"] == "live_streams"
    assert shown == {"live_streams": 1}


async def test_an_upload_over_the_limit_is_refused_before_it_is_received(start: Start) -> None:
    async with start(quota_uploads=1) as one, start(quota_uploads=1) as other:
        go_on, sent = asyncio.Event(), asyncio.Event()

        async def frames() -> AsyncIterator[pb.CreateJobFromUploadRequest]:
            yield pb.CreateJobFromUploadRequest(start=pb.UploadStart(force=True))
            yield pb.CreateJobFromUploadRequest(chunk=SECOND)
            sent.set()
            await go_on.wait()

        first = asyncio.ensure_future(one.pipeline.CreateJobFromUpload(frames()))
        await sent.wait()

        async def counted() -> bool:
            return await used(other) == {"uploads": 1}

        await until(counted)
        error = await refused(other.upload(SECOND))
        go_on.set()
        await first
        admitted = await other.upload(SECOND)

        assert error.metadata["limit"] == "uploads"
        assert (await other.finished(admitted.job_id)).state == SUCCEEDED


async def test_bytes_are_free_again_once_their_job_is_deleted(start: Start, script: Script) -> None:
    size = len(SECOND)
    async with start(quota_stored_bytes=2 * size) as client:
        first = await client.upload(SECOND, size_bytes=size)
        await client.finished(first.job_id)
        announced = await refused(client.upload(SECOND, SECOND, size_bytes=2 * size))
        unannounced = await refused(client.upload(SECOND, SECOND))
        repeated = await refused(
            client.pipeline.RepeatJob(pb.RepeatJobRequest(job_id=first.job_id))
        )
        kept = int((await used(client))["stored_bytes"])
        await client.delete(first.job_id)
        again = await client.upload(SECOND, SECOND)
        full = await refused(client.create())

        assert size < kept < 2 * size  # with its kept audio
        for error in (announced, unannounced, repeated, full):
            assert error.metadata["limit"] == "stored_bytes"
        assert (await client.finished(again.job_id)).state == SUCCEEDED


async def test_audio_counts_for_a_day_also_after_its_job_was_deleted(
    start: Start, script: Script
) -> None:
    async with start(quota_audio_hours=script.seconds / HOUR) as client:
        job = await client.finished((await client.create()).job_id)
        before = await refused(client.create())
        await client.delete(job.job_id)
        after = await refused(client.create())
        request = collection_pb.CreateCollectionRequest(addresses=[URL])
        batch = await refused(client.collections.CreateCollection(request))
        live = await refused(stream(client, asyncio.Event(), asyncio.Event()))

        for error in (before, after, batch, live):
            assert error.metadata["limit"] == "audio_hours"
            # It comes back when the recording is a day old.
            back = job.end_time.ToNanoseconds() / 1e9 + DAY_SECONDS - time()
            assert error.retry_after_seconds == pytest.approx(back, abs=120)
        await override(client, audio_hours=1)
        assert (await client.finished((await client.create()).job_id)).state == SUCCEEDED


async def test_live_streams_use_up_audio_hours(start: Start) -> None:
    async with start(quota_audio_hours=1 / HOUR) as client:
        end = asyncio.Event()
        end.set()
        await stream(client, asyncio.Event(), end)
        error = await refused(client.create())

    assert error.metadata["limit"] == "audio_hours"


async def test_copied_results_use_no_audio_hours(start: Start, script: Script) -> None:
    async with start(quota_audio_hours=(script.seconds + 1) / HOUR) as client:
        await client.finished((await client.create(force=False)).job_id)
        for _ in range(2):
            copied = await client.finished((await client.create(force=False)).job_id)
            assert copied.cached_from_job_id


async def test_accepted_jobs_wait_for_audio_hours(start: Start, script: Script) -> None:
    async with start(concurrency=1, quota_audio_hours=script.seconds / HOUR) as client:
        async with runner_busy(client, script):
            waiting = await client.create(url(2))

        async def first_ended() -> bool:
            return await used(client) == {
                "queued_jobs": 1,
                "stored_bytes": 100 * script.seconds,
                "audio_hours": script.seconds / HOUR,
            }

        await until(first_ended)
        assert (await client.job(waiting.job_id)).state == QUEUED
        await override(client, audio_hours=1)
        assert (await client.finished(waiting.job_id)).state == SUCCEEDED

    assert script.downloads == [url("first"), url(2)]


async def test_webhooks_are_counted_until_they_are_delivered(start: Start, script: Script) -> None:
    async with receiving() as receiver:
        changes = {"webhook_secret": SECRET, "webhook_private": True, "webhook_backoff": "600"}
        async with start(quota_webhooks=1, **changes) as client:
            receiver.answer(503)
            job = await client.create(webhook_url=receiver.url)
            await client.finished(job.job_id)
            await until(lambda: len(receiver.received) == 1)
            waiting = await refused(client.create(webhook_url=receiver.url))
            without = await client.create()
            await client.delete(job.job_id)
            receiver.answer(200)
            admitted = await client.create(webhook_url=receiver.url)
            await until(lambda: len(receiver.received) == 2)

            async def delivered() -> bool:
                return "webhooks" not in await used(client)

            await until(delivered)

    assert waiting.metadata["limit"] == "webhooks"
    assert without.job_id != admitted.job_id


async def test_members_wait_for_the_queue_and_collections_have_a_limit(
    start: Start, script: Script
) -> None:
    async with start(concurrency=1, quota_queued_jobs=1, quota_collections=1) as client:
        addresses = [url(n) for n in range(4)]
        request = collection_pb.CreateCollectionRequest(addresses=addresses, force=True)
        made = (await client.collections.CreateCollection(request)).collection
        error = await refused(client.collections.CreateCollection(request))
        watch = collection_pb.WatchCollectionRequest(collection_id=made.collection_id)
        async for _ in client.collections.WatchCollection(watch):
            pass
        page = await client.collections.GetCollection(
            collection_pb.GetCollectionRequest(collection_id=made.collection_id)
        )

        assert error.metadata["limit"] == "collections"
        completed = collection_pb2.MEMBER_STATE_COMPLETED
        assert {one.state: one.count for one in page.collection.counts} == {completed: 4}
        await client.collections.CreateCollection(request)


async def test_a_replay_takes_a_place_in_the_queue(start: Start, script: Script) -> None:
    async with start(concurrency=1, quota_queued_jobs=1) as client:
        script.failures = [LimitExceededError("too long", reason=Reason.TOO_LONG)]
        dead = await client.finished((await client.create(url("dead"))).job_id)
        replay = admin_pb.ReplayDeadLetterRequest(job_id=dead.job_id)
        async with runner_busy(client, script):
            waiting = await client.create(url(1))
            error = await refused(client.admin.ReplayDeadLetter(replay))
        await client.finished(waiting.job_id)
        await client.admin.ReplayDeadLetter(replay)

        assert error.metadata["limit"] == "queued_jobs"
        assert (await client.finished(dead.job_id)).state == SUCCEEDED


async def test_an_override_is_in_force_on_the_other_orchestrator_and_survives_both(
    start: Start, script: Script
) -> None:
    async with start() as one, start() as other:
        await override(one, queued_jobs=1, audio_hours=2.5)

        async def knows() -> bool:
            try:
                await other.create(url("many"))
            except grpc.aio.AioRpcError as error:
                return to_error(error).reason == Reason.QUOTA_EXCEEDED
            return False

        async with runner_busy(other, script):
            await until(knows)
    async with start() as third:
        found = await third.quotas.GetQuota(quota_api.GetQuotaRequest())
        set_ = {quotas.name_of(one.limit): one.maximum for one in found.quotas if one.overridden}
        defaults = quota_api.SetQuotaRequest(
            defaults=[quota_pb2.QUOTA_LIMIT_QUEUED_JOBS, quota_pb2.QUOTA_LIMIT_AUDIO_HOURS]
        )
        restored = await third.quotas.SetQuota(defaults)
        script.go_on.set()

    assert set_ == {"queued_jobs": 1, "audio_hours": 2.5}
    assert not any(one.overridden or one.maximum for one in restored.quotas)


async def test_a_claim_of_a_dead_process_ends(
    broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing() -> None: ...

    async def none(_: str) -> int:
        return 0

    def one_limit() -> Quotas:
        store = QuotaStore(broker_bus)
        return Quotas(store, UsageTable(), nothing, none, {QUEUED_JOBS: 1})

    class KilledError(BaseException):
        """Ends the block as a killed process would: nothing is released."""

    with pytest.raises(KilledError):
        async with one_limit().admitted("ana", "a job", {QUEUED_JOBS: 1}):
            raise KilledError
    with pytest.raises(LimitExceededError):
        await one_limit().check("ana", {QUEUED_JOBS: 1})
    await one_limit().check("bia", {QUEUED_JOBS: 1})
    monkeypatch.setattr(quotas, "time", lambda: time() + LEASE_SECONDS)
    await one_limit().check("ana", {QUEUED_JOBS: 1})


async def test_a_claim_whose_job_was_refused_is_released(broker_bus: Bus) -> None:
    async def nothing() -> None: ...

    async def none(_: str) -> int:
        return 0

    one = Quotas(QuotaStore(broker_bus), UsageTable(), nothing, none, {QUEUED_JOBS: 1})
    with pytest.raises(LimitExceededError, match="full"):
        async with one.admitted("ana", "a job", {QUEUED_JOBS: 1}):
            raise LimitExceededError("full", reason=Reason.STORAGE_FULL)
    await one.check("ana", {QUEUED_JOBS: 1})


async def test_over_http_a_refusal_says_which_limit_and_when_to_come_back(
    start: Start, script: Script
) -> None:
    async with start(quota_audio_hours=script.seconds / HOUR) as client:
        await client.finished((await client.create()).job_id)
        async with running_gateway(orchestrator=client.address) as http:
            refusal = await http.post("/pipeline", json={"youtube_url": URL})
            shown = (await http.get("/quota")).json()["quotas"]

    assert refusal.status_code == 429
    assert DAY_SECONDS / 2 < int(refusal.headers["Retry-After"]) <= DAY_SECONDS
    problem = refusal.json()
    assert (problem["reason"], problem["retryable"]) == ("QUOTA_EXCEEDED", True)
    assert problem["metadata"] == {"limit": "audio_hours", "maximum": "0.002", "used": "0.002"}
    (audio,) = [one for one in shown if one["limit"] == "audio_hours"]
    assert audio["used"] == audio["maximum"] == script.seconds / HOUR
