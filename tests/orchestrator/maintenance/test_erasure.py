"""Nothing of an erased owner is left in any file of the broker or of the services."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

from mesh.addresses import free_ports
from mesh.bus import Bus
from mesh.errors import SourceRefusedError, UnavailableError
from mesh.reasons import Reason
from mesh.status import reason_of
from mesh.tokens import write_token
from orchestrator.maintenance import erasure
from orchestrator.maintenance.compaction import Compaction
from tests.orchestrator.access.conftest import token_for
from tests.orchestrator.conftest import STORAGE, Start
from tests.orchestrator.webhooks.receiver import SECRET, Receiver, receiving
from tests.support.broker import Broker
from tests.support.client import Client, refusal
from tests.support.polling import until
from tests.support.scripted import SECOND, Script
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import auth_service_pb2 as auth_pb
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import job_pb2, owner_pb2, quota_pb2, token_pb2
from ytcaption.v1 import pipeline_service_pb2 as pipeline_pb
from ytcaption.v1 import quota_service_pb2 as quota_api

PLACES = ("nats", "work")
"""Where broker and orchestrator store files."""


def found_in_files(folder: Path, word: str) -> list[str]:
    """Every file below the folder's places that holds the word."""
    hits = []
    for place in PLACES:
        for parent, _, names in os.walk(folder / place):  # passes over folders that go meanwhile
            for path in (Path(parent, name) for name in names):
                with suppress(FileNotFoundError):  # blocks come and go
                    if word.encode() in path.read_bytes():
                        hits.append(str(path.relative_to(folder)))
    return hits


@dataclass(frozen=True, slots=True)
class Owner:
    """A caller, and what it has."""

    name: str
    client: Client
    token_id: str
    done: str = ""
    uploaded: str = ""
    collection: str = ""

    @property
    def mark(self) -> str:
        """In every text this owner chooses."""
        return f"mark{self.name}"


@pytest.fixture
def script() -> Script:
    script = Script()
    script.echoes = True
    return script


@pytest.fixture
def first_token(tmp_path: Path) -> str:
    return write_token(tmp_path / "first.token")


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as running:
        yield running


@pytest.fixture
def login(first_token: str, tmp_path: Path) -> dict[str, object]:
    """Settings of an orchestrator with a login and webhooks."""
    file = str(tmp_path / "first.token")
    hooks = {"webhook_secret": SECRET, "webhook_private": True}
    return {"login": True, "token_file": file, **hooks}


async def owner_named(admin: Client, stranger: Client, name: str) -> Owner:
    request = auth_pb.CreateTokenRequest(
        subject=name, role=token_pb2.ROLE_SUBMITTER, note=f"mark{name} note"
    )
    made = await admin.auth.CreateToken(request)
    return Owner(name, stranger.with_token(made.secret), made.token.token_id)


def options(owner: Owner) -> job_pb2.JobOptions:
    return job_pb2.JobOptions(initial_prompt=f"{owner.mark} prompt")


async def with_everything(owner: Owner, script: Script, hook: str) -> Owner:
    """The owner with one of each thing that can be stored."""
    mark, client = owner.mark, owner.client
    url = f"http://example.test/{mark}"
    named = {"correlation_id": f"{mark}-correlation", "caller": f"{mark}-caller"}
    hook = f"{hook}?{mark}=secret"
    done = await client.create(
        f"{url}.mp3", options=options(owner), webhook_url=hook, request_id=f"{mark}-1", **named
    )
    await client.finished(done.job_id)
    removed = await client.create(f"{url}-removed.mp3", options=options(owner))
    await client.finished(removed.job_id)
    await client.delete(removed.job_id)
    script.failures = [
        UnavailableError(f"{mark} retried", reason=Reason.NETWORK_ERROR),
        SourceRefusedError(f"{mark} failed", reason=Reason.VIDEO_REMOVED),
    ]
    dead = await client.create(f"{url}-dead.mp3", options=options(owner), webhook_url=hook)
    await client.finished(dead.job_id)
    upload = await client.upload(
        f"{mark} content".encode() * 2000,
        SECOND,
        file_name=f"{mark} file.wav",
        options=options(owner),
    )
    await client.finished(upload.job_id)
    request = collection_pb.CreateCollectionRequest(
        addresses=[f"{url}-member-{number}.mp3" for number in range(2)],
        title=f"{mark} title",
        options=options(owner),
        webhook_url=hook,
    )
    made = (await client.collections.CreateCollection(request)).collection
    watch = collection_pb.WatchCollectionRequest(collection_id=made.collection_id)
    async for _ in client.collections.WatchCollection(watch):
        pass
    return Owner(owner.name, client, owner.token_id, done.job_id, upload.job_id, made.collection_id)


async def erase(admin: Client, owner: str, **fields: object) -> list[pb.EraseOwnerResponse]:
    request = pb.EraseOwnerRequest(owner=owner, confirmation=f"ERASE {owner}", **fields)  # type: ignore[arg-type]
    return [update async for update in admin.admin.EraseOwner(request)]


async def all_delivered(client: Client) -> bool:
    listed = await client.admin.ListWebhookDeliveries(pb.ListWebhookDeliveriesRequest())
    states = [one.state for one in listed.deliveries]
    return len(states) >= 4 and pb.DELIVERY_STATE_PENDING not in states


async def test_no_file_holds_anything_of_an_erased_owner_and_all_of_others_is_served(  # noqa: PLR0913
    start: Start,
    login: dict[str, object],
    first_token: str,
    script: Script,
    receiver: Receiver,
    tmp_path: Path,
) -> None:
    async with start(**login) as stranger:
        admin = stranger.with_token(first_token)
        ana, bia = [await owner_named(admin, stranger, name) for name in ("ana", "bia")]
        ana, bia = [await with_everything(one, script, receiver.url) for one in (ana, bia)]
        await until(lambda: all_delivered(ana.client))
        await until(lambda: all_delivered(bia.client))
        session = (await ana.client.auth.CreateSession(auth_pb.CreateSessionRequest())).session
        script.pause_before_segment = 2
        for one in (ana, bia):  # one of each runs, one waits
            for _ in range(2):
                await one.client.create(f"http://example.test/{one.mark}.mp3", options=options(one))
        await script.until_paused()
        for one in (ana, bia):
            assert found_in_files(tmp_path, one.mark)

        counted = (await erase(admin, "ana", dry_run=True))[-1]
        updates = await erase(admin, "ana")
        script.pause_before_segment = None
        script.go_on.set()

        done = updates[-1]
        assert done.finished
        assert {update.phase for update in updates} >= {owner_pb2.ERASURE_PHASE_COMPACTION}
        assert counted.removed.jobs == done.removed.jobs == 7
        assert counted.removed.collections == done.removed.collections == 1
        assert counted.removed.tokens == done.removed.tokens == 1
        assert counted.removed.sessions == done.removed.sessions == 1
        assert done.removed.files >= 8
        assert done.removed.dead_letters == 1
        assert done.removed.webhooks == 4
        assert done.removed.published_events >= 20
        assert done.removed.events > counted.removed.events  # the ends of what was cancelled

        assert found_in_files(tmp_path, ana.mark) == []
        assert await refusal(ana.client.job(ana.done)) == Reason.TOKEN_INVALID
        assert await refusal(stranger.with_token(session).job(ana.done)) == Reason.TOKEN_INVALID
        assert await refusal(admin.job(ana.done)) == Reason.JOB_NOT_FOUND

        assert bia.mark in await bia.client.text(bia.done)
        assert bia.mark in await bia.client.text(bia.uploaded)
        listed = await bia.client.pipeline.ListJobs(pipeline_pb.ListJobsRequest())
        assert listed.total_size == 7
        collection = await bia.client.collections.GetCollection(
            collection_pb.GetCollectionRequest(collection_id=bia.collection, page_size=9)
        )
        assert [bia.mark in one.title for one in collection.members] == [True, True]
        letters = await bia.client.admin.ListDeadLetters(pb.ListDeadLettersRequest())
        assert len(letters.dead_letters) == 1
        assert await all_delivered(bia.client)
        for job in listed.jobs:
            await bia.client.finished(job.job_id)

        audited = await admin.admin.ListAudit(pb.ListAuditRequest(subject="admin"))
        [entry] = [
            one
            for one in audited.entries
            if one.method == "AdminService/EraseOwner" and not one.reason
        ][:1]
        assert "ana" in entry.object_ids
        assert (await erase(admin, "ana"))[-1].removed == owner_pb2.ErasedCounts()


async def one_job(owner: Owner) -> str:
    made = await owner.client.create(
        f"http://example.test/{owner.mark}.mp3", options=options(owner)
    )
    return (await owner.client.finished(made.job_id)).job_id


@pytest.fixture
async def stranger(start: Start, login: dict[str, object]) -> AsyncIterator[Client]:
    async with start(**login) as client:
        yield client


@pytest.fixture
async def admin(stranger: Client, first_token: str) -> Client:
    return stranger.with_token(first_token)


async def test_without_compaction_former_versions_stay_on_the_disk(
    stranger: Client, admin: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the first test: its search does find what the broker left."""
    ana = await owner_named(admin, stranger, "ana")
    bia = await owner_named(admin, stranger, "bia")
    await one_job(ana)
    await one_job(bia)

    async def nothing(*_: object, **__: object) -> None:
        return

    monkeypatch.setattr(Compaction, "run", nothing)
    await erase(admin, "ana")
    left = found_in_files(tmp_path, ana.mark)
    monkeypatch.undo()
    again = (await erase(admin, "ana"))[-1]

    assert any("KV_YTC_JOBS" in file for file in left)
    assert any("KV_YTC_TOKENS" in file for file in left)
    assert again.finished
    assert found_in_files(tmp_path, ana.mark) == []
    assert bia.mark in await bia.client.text(
        (await bia.client.pipeline.ListJobs(pipeline_pb.ListJobsRequest())).jobs[0].job_id
    )


async def test_the_quota_of_an_erased_owner_is_forgotten_by_every_orchestrator(
    start: Start, login: dict[str, object], first_token: str, tmp_path: Path
) -> None:
    async with start(**login) as one, start(**login) as other:
        admins = [client.with_token(first_token) for client in (one, other)]
        ana, bia = [await owner_named(admins[0], one, name) for name in ("quotaana", "quotabia")]
        for owner in (ana, bia):
            request = quota_api.SetQuotaRequest(owner=owner.name)
            request.overrides.add(limit=quota_pb2.QUOTA_LIMIT_WEBHOOKS, maximum=7)
            await admins[0].quotas.SetQuota(request)

        async def overrides(admin: Client, owner: str) -> list[float]:
            found = await admin.quotas.GetQuota(quota_api.GetQuotaRequest(owner=owner))
            return [limit.maximum for limit in found.quotas if limit.overridden]

        known = [await overrides(admin, ana.name) for admin in admins]
        await erase(admins[1], ana.name)

        assert known == [[7], [7]]
        for admin in admins:
            assert await overrides(admin, ana.name) == []
            assert await overrides(admin, bia.name) == [7]
        hits = {name: found_in_files(tmp_path, name) for name in (ana.name, bia.name)}
        assert not [file for file in hits[ana.name] if "KV_YTC_QUOTAS" in file]
        assert [file for file in hits[bia.name] if "KV_YTC_QUOTAS" in file]


async def test_an_erasure_needs_its_exact_confirmation_and_an_admin(
    stranger: Client, admin: Client
) -> None:
    ana = await owner_named(admin, stranger, "ana")
    job = await one_job(ana)
    operator = stranger.with_token((await token_for(admin, "op", token_pb2.ROLE_OPERATOR)).secret)

    async def reason(client: Client, owner: str, confirmation: str) -> str:
        request = pb.EraseOwnerRequest(owner=owner, confirmation=confirmation)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in client.admin.EraseOwner(request):
                pass
        return reason_of(caught.value)

    for words in ("", "ERASE", "erase ana", "ERASE ana ", "ERASE bia"):
        assert await reason(admin, "ana", words) == Reason.CONFIRMATION_MISSING
    assert await reason(admin, "", "ERASE ") == Reason.REQUEST_INVALID
    for client in (operator, ana.client):
        assert await reason(client, "ana", "ERASE ana") == Reason.ROLE_REQUIRED
    assert (await ana.client.job(job)).job_id == job


@pytest.mark.parametrize(
    "step",
    ["_end_tokens", "_cancel", "_erase_content", "_erase_messages", "_remove_records", "_compact"],
)
async def test_an_erasure_whose_call_ends_in_any_step_is_finished_by_another_orchestrator(  # noqa: PLR0913
    step: str,
    start: Start,
    login: dict[str, object],
    first_token: str,
    script: Script,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broker_bus: Bus,
) -> None:
    reached = asyncio.Event()
    whole = getattr(erasure.Erasure, step)

    async def then_hang(self: erasure.Erasure, *given: object) -> None:
        await whole(self, *given)
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(erasure.Erasure, step, then_hang)
    async with start(**login) as stranger:
        admin = stranger.with_token(first_token)
        ana = await owner_named(admin, stranger, "ana")
        job = await one_job(ana)
        request = pb.EraseOwnerRequest(owner="ana", confirmation="ERASE ana")
        call = admin.admin.EraseOwner(request)
        await anext(aiter(call))
        await asyncio.wait_for(reached.wait(), 60)
        call.cancel()
    monkeypatch.setattr(erasure.Erasure, step, whole)
    # The first one may have ended before it could say that it works on it no more.
    monkeypatch.setattr(erasure, "ABANDONED", timedelta(seconds=1))
    monkeypatch.setattr("orchestrator.maintenance.housekeeper.FIRST_SECONDS", 0)
    monkeypatch.setattr("orchestrator.maintenance.housekeeper.INTERVAL_SECONDS", 0.5)
    async with start(**login) as stranger:
        admin = stranger.with_token(first_token)

        async def is_over() -> bool:
            stream = f"KV_{broker_bus.names.owners_bucket}"
            return (await broker_bus.state(stream)).messages == 0

        await until(is_over)

        assert found_in_files(tmp_path, ana.mark) == []
        assert await refusal(admin.job(job)) == Reason.JOB_NOT_FOUND

        async def is_audited() -> bool:
            found = await admin.admin.ListAudit(pb.ListAuditRequest(subject="admin"))
            ends = [one for one in found.entries if one.method == erasure.METHOD]
            about = [list(one.object_ids) for one in ends]
            # Newest first: the end, and the call that had to leave it.
            return about == [["ana"]] * 2 and (not ends[0].reason, bool(ends[1].reason)) == (
                True,
                True,
            )

        await until(is_audited)


async def test_a_second_call_follows_an_erasure_that_is_under_way(
    stranger: Client, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = await owner_named(admin, stranger, "ana")
    await one_job(ana)
    reached, go_on, runs = asyncio.Event(), asyncio.Event(), 0
    whole = erasure.Erasure._cancel

    async def wait_first(self: erasure.Erasure, *given: object) -> object:
        nonlocal runs
        runs += 1
        reached.set()
        await go_on.wait()
        return await whole(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(erasure.Erasure, "_cancel", wait_first)
    first = asyncio.create_task(erase(admin, "ana"))
    await asyncio.wait_for(reached.wait(), 60)
    second = admin.admin.EraseOwner(pb.EraseOwnerRequest(owner="ana", confirmation="ERASE ana"))
    following = aiter(second)
    await anext(following)
    go_on.set()
    last = [update async for update in following][-1]

    assert (await first)[-1].finished
    assert last.finished
    assert runs == 1


async def test_a_collection_without_a_job_yet_that_was_accepted_meanwhile_goes_too(
    stranger: Client, admin: Client, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = "http://example.test/feed"
    script.pause_listing_at, script.listings[feed] = 0, []
    whole, accepted = erasure.Erasure._remove_records, list[str]()

    async def then_accept(self: erasure.Erasure, *given: object) -> None:
        await whole(self, *given)  # type: ignore[arg-type]
        if not accepted:  # by another orchestrator, which has not read yet that the token ended
            late = await owner_named(admin, stranger, "ana")
            request = collection_pb.CreateCollectionRequest(sources=[feed])
            made = (await late.client.collections.CreateCollection(request)).collection
            accepted.append(made.collection_id)

    monkeypatch.setattr(erasure.Erasure, "_remove_records", then_accept)
    await one_job(await owner_named(admin, stranger, "ana"))

    done = (await erase(admin, "ana"))[-1]

    assert done.finished
    request = collection_pb.GetCollectionRequest(collection_id=accepted[0])
    gone = await refusal(admin.collections.GetCollection(request))
    assert gone == Reason.COLLECTION_NOT_FOUND


async def test_the_files_that_a_killed_attempt_left_on_the_disk_go_too(
    stranger: Client, admin: Client, script: Script, tmp_path: Path
) -> None:
    ana = await owner_named(admin, stranger, "ana")
    job = await one_job(ana)
    events = await ana.client.events(job)
    [runner] = [one.attempt_started.runner_id for one in events if one.HasField("attempt_started")]
    left = tmp_path / "work" / f"tmp-{runner}-source"
    left.write_text(ana.mark)
    other = tmp_path / "work" / "tmp-other-source"
    other.write_text("of a job of another owner")
    script.purge_files = 2

    done = (await erase(admin, "ana"))[-1]

    assert not left.exists()
    assert other.exists()
    assert done.removed.scratch_files == 1 + 3 * 2


async def test_the_first_token_stays_and_the_report_says_so(
    stranger: Client, admin: Client, tmp_path: Path
) -> None:
    job = await admin.create("http://example.test/markadmin.mp3")
    await admin.finished(job.job_id)

    done = (await erase(admin, "admin"))[-1]

    assert "ORCHESTRATOR_TOKEN_FILE" in done.remarks[0]
    assert found_in_files(tmp_path, "markadmin") == []


async def test_an_erasure_survives_the_kill_of_its_orchestrator(  # noqa: PLR0913
    start: Start,
    login: dict[str, object],
    first_token: str,
    broker: Broker,
    script: Script,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broker_bus: Bus,
) -> None:
    """A process of its own makes the intent and is killed with SIGKILL as soon as it says so."""
    async with start(**login) as stranger:
        admin = stranger.with_token(first_token)
        ana = await owner_named(admin, stranger, "ana")
        for _ in range(3):
            await one_job(ana)
    port = free_ports(1)[0]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "orchestrator"),
        env={
            **os.environ,
            "ORCHESTRATOR_LISTEN": f"127.0.0.1:{port}",
            "ORCHESTRATOR_METRICS_LISTEN": "",
            "ORCHESTRATOR_NATS_URL": broker.url,
            "ORCHESTRATOR_NATS_CREDENTIALS": broker.credentials,
            "ORCHESTRATOR_LOGIN": "true",
            "ORCHESTRATOR_TOKEN_FILE": str(login["token_file"]),
            "ORCHESTRATOR_STORAGE_BYTES": str(STORAGE),
            "ORCHESTRATOR_WORK_DIR": str(tmp_path / "work"),
        },
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await asyncio.wait_for(channel.channel_ready(), 60)
            killed = Client(channel).with_token(first_token)
            request = pb.EraseOwnerRequest(owner="ana", confirmation="ERASE ana")
            updates = killed.admin.EraseOwner(request)
            await anext(aiter(updates))
            process.kill()
            await process.wait()
            updates.cancel()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    stream = f"KV_{broker_bus.names.owners_bucket}"
    assert (await broker_bus.state(stream)).messages == 1
    assert found_in_files(tmp_path, ana.mark)

    monkeypatch.setattr(erasure, "ABANDONED", timedelta(0))
    monkeypatch.setattr("orchestrator.maintenance.housekeeper.FIRST_SECONDS", 0)
    async with start(**login) as stranger:

        async def is_over() -> bool:
            return (await broker_bus.state(stream)).messages == 0

        await until(is_over)

        assert found_in_files(tmp_path, ana.mark) == []
