"""What belongs to one owner does not exist for another; operators and admins see everything."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration import from_timedelta
from google.protobuf.message import Message

from mesh.errors import SourceRefusedError
from mesh.identity import METHODS, Role
from mesh.reasons import Reason
from mesh.status import reason_of
from orchestrator.tasks.fixed_types import FixedTypes
from tests.orchestrator.access.conftest import token_for
from tests.orchestrator.conftest import Start
from tests.orchestrator.webhooks.receiver import SECRET, receiving
from tests.support.client import URL, Client, refusal
from tests.support.polling import until
from tests.support.scripted import Script
from tests.support.segments import TEXT
from tests.support.tasks import Made, ScriptedExecutor, executor, struct
from ytcaption.v1 import (
    admin_service_pb2,
    auth_service_pb2,
    collection_service_pb2,
    job_pb2,
    media_pb2,
    pipeline_service_pb2,
    quota_service_pb2,
    task_pb2,
    token_pb2,
)
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import auth_service_pb2 as auth_pb
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import pipeline_service_pb2 as pb

RESULT_FILE = "report.md"
RPCS: dict[str, Any] = {
    f"{service.name}/{method.name}": method
    for contract in (
        pipeline_service_pb2,
        collection_service_pb2,
        admin_service_pb2,
        auth_service_pb2,
        quota_service_pb2,
    )
    for service in contract.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


@dataclass(frozen=True, slots=True)
class Things:
    """What one owner has."""

    job: str
    dead: str
    """A job with a dead letter."""
    collection: str

    @property
    def ids(self) -> list[bytes]:
        return [self.job.encode(), self.dead.encode(), self.collection.encode()]


@dataclass(frozen=True, slots=True)
class Ask:
    """A request about the things of an owner, and what another one gets."""

    request: Callable[[Things], Message]
    missing: str = ""
    """The reason, if the request names one thing."""
    shows: Callable[[Things], str] | None = None
    """What only its owner finds in the answer."""


NO_JOB, NO_COLLECTION = Reason.JOB_NOT_FOUND, Reason.COLLECTION_NOT_FOUND
NO_LETTER = Reason.DEAD_LETTER_NOT_FOUND
OPEN = {name for name, role in METHODS.items() if role is Role.ANYONE}
OF_ONE_OWNER: dict[str, Ask] = {
    "PipelineService/GetJob": Ask(lambda own: pb.GetJobRequest(job_id=own.job), NO_JOB),
    "PipelineService/ListJobs": Ask(lambda _: pb.ListJobsRequest(), shows=lambda own: own.job),
    "PipelineService/WatchJobs": Ask(lambda _: pb.WatchJobsRequest(), shows=lambda own: own.job),
    "PipelineService/WatchJob": Ask(lambda own: pb.WatchJobRequest(job_id=own.job), NO_JOB),
    "PipelineService/GetCaptions": Ask(
        lambda own: pb.GetCaptionsRequest(job_id=own.job, format=media_pb2.CAPTION_FORMAT_SRT),
        NO_JOB,
    ),
    "PipelineService/DownloadArtifact": Ask(
        lambda own: pb.DownloadArtifactRequest(job_id=own.job, name="audio.webm"), NO_JOB
    ),
    "PipelineService/CancelJob": Ask(lambda own: pb.CancelJobRequest(job_id=own.job), NO_JOB),
    "PipelineService/RepeatJob": Ask(lambda own: pb.RepeatJobRequest(job_id=own.job), NO_JOB),
    "CollectionService/GetCollection": Ask(
        lambda own: collection_pb.GetCollectionRequest(collection_id=own.collection, page_size=9),
        NO_COLLECTION,
    ),
    "CollectionService/ListCollections": Ask(
        lambda _: collection_pb.ListCollectionsRequest(), shows=lambda own: own.collection
    ),
    "CollectionService/WatchCollections": Ask(
        lambda _: collection_pb.WatchCollectionsRequest(), shows=lambda own: own.collection
    ),
    "CollectionService/WatchCollection": Ask(
        lambda own: collection_pb.WatchCollectionRequest(collection_id=own.collection),
        NO_COLLECTION,
    ),
    "CollectionService/CancelCollection": Ask(
        lambda own: collection_pb.CancelCollectionRequest(collection_id=own.collection),
        NO_COLLECTION,
    ),
    "CollectionService/GetReport": Ask(
        lambda own: collection_pb.GetReportRequest(
            collection_id=own.collection, format=collection_pb.REPORT_FORMAT_JSON
        ),
        NO_COLLECTION,
    ),
    "CollectionService/ListSubtasks": Ask(
        lambda own: collection_pb.ListSubtasksRequest(collection_id=own.collection),
        NO_COLLECTION,
    ),
    "CollectionService/ListDocuments": Ask(
        lambda own: collection_pb.ListDocumentsRequest(collection_id=own.collection),
        NO_COLLECTION,
    ),
    "CollectionService/GetResultFile": Ask(
        lambda own: collection_pb.GetResultFileRequest(
            collection_id=own.collection, subtask=1, name=RESULT_FILE
        ),
        NO_COLLECTION,
    ),
    "AdminService/ListDeadLetters": Ask(
        lambda _: admin_pb.ListDeadLettersRequest(), shows=lambda own: own.dead
    ),
    "AdminService/ListWebhookDeliveries": Ask(
        lambda _: admin_pb.ListWebhookDeliveriesRequest(), shows=lambda own: own.job
    ),
    "AdminService/ReplayDeadLetter": Ask(
        lambda own: admin_pb.ReplayDeadLetterRequest(job_id=own.dead), NO_LETTER
    ),
    "AdminService/PurgeDeadLetters": Ask(lambda _: admin_pb.PurgeDeadLettersRequest()),
    "CollectionService/DeleteCollection": Ask(
        lambda own: collection_pb.DeleteCollectionRequest(collection_id=own.collection),
        NO_COLLECTION,
    ),
    "PipelineService/DeleteJob": Ask(lambda own: pb.DeleteJobRequest(job_id=own.job), NO_JOB),
}
"""Every rpc about stored things, those that change them last."""
OF_THE_CALLER = {
    "AdminService/ExportOwner",
    "PipelineService/CreateJob",
    "PipelineService/CreateJobFromUpload",
    "PipelineService/TranscribeStream",
    "PipelineService/GetAbilities",
    "CollectionService/CreateCollection",
    "AuthService/GetCaller",
    "AuthService/CreateLink",
    "AuthService/CreateSession",
    "AuthService/EndSessions",
    "QuotaService/GetQuota",
}
"""About the caller alone: what it makes is its own."""


def test_every_rpc_is_about_an_owner_or_the_caller_or_the_whole_mesh() -> None:
    whole = {name for name, role in METHODS.items() if role >= Role.OPERATOR}

    assert OF_ONE_OWNER.keys() | OF_THE_CALLER | OPEN | whole == METHODS.keys()
    assert not OF_ONE_OWNER.keys() & (OF_THE_CALLER | OPEN | whole)


async def ask(client: Client, name: str, request: Message) -> tuple[str, bytes]:
    """The reason of a refusal, and the first answers."""
    method = RPCS[name]
    kind = "unary_stream" if method.server_streaming else "unary_unary"
    call = getattr(client.channel, kind)(
        f"/ytcaption.v1.{name}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=lambda data: data,
    )(request)
    try:
        if not method.server_streaming:
            return "", await call
        answer = b""
        async for part in call:
            answer += part
            if "List" in name or name.endswith(("WatchJobs", "WatchCollections")):
                break
    except grpc.aio.AioRpcError as error:
        return reason_of(error), b""
    finally:
        call.cancel()
    return "", answer


@pytest.fixture
async def stranger(start: Start, first_token: str, tmp_path: Path) -> AsyncIterator[Client]:
    """With webhooks, which belong to owners, too."""
    changes = {"webhook_secret": SECRET, "webhook_private": True}
    file = str(tmp_path / "first.token")
    made = Made(file=task_pb2.ResultFile(name=RESULT_FILE))
    report = ScriptedExecutor([made, Made(chunk=b"x"), Made(result=struct())])
    types = FixedTypes([executor("report", report)])
    async with start(types, login=True, token_file=file, **changes) as client:
        yield client


async def things_of(client: Client, script: Script, hook: str) -> Things:
    job = await client.finished((await client.create(webhook_url=hook)).job_id)
    script.failures = [SourceRefusedError("gone", reason=Reason.VIDEO_REMOVED)]
    dead = await client.finished((await client.create()).job_id)
    request = collection_pb.CreateCollectionRequest(
        addresses=[URL], force=True, executors=[task_pb2.ExecutorSpec(kind="report")]
    )
    made = (await client.collections.CreateCollection(request)).collection
    watch = collection_pb.WatchCollectionRequest(collection_id=made.collection_id)
    async for _ in client.collections.WatchCollection(watch):
        pass

    async def is_logged() -> bool:
        listed = await client.admin.ListWebhookDeliveries(admin_pb.ListWebhookDeliveriesRequest())
        return any(one.job_id == job.job_id for one in listed.deliveries)

    async def is_dead() -> bool:
        listed = await client.admin.ListDeadLetters(admin_pb.ListDeadLettersRequest())
        return any(one.job_id == dead.job_id for one in listed.dead_letters)

    await until(is_logged)
    await until(is_dead)
    return Things(job.job_id, dead.job_id, made.collection_id)


async def test_the_table_of_owners_and_rpcs(
    stranger: Client, admin: Client, script: Script
) -> None:
    ana, bia = [
        stranger.with_token((await token_for(admin, name)).secret) for name in ("ana", "bia")
    ]
    operator = stranger.with_token((await token_for(admin, "op", token_pb2.ROLE_OPERATOR)).secret)
    reader = stranger.with_token((await token_for(admin, "ana", token_pb2.ROLE_READER)).secret)
    short = auth_pb.CreateTokenRequest(subject="ana", role=token_pb2.ROLE_ADMIN)
    short.lifetime.CopyFrom(from_timedelta(timedelta(microseconds=1)))
    expired = stranger.with_token((await admin.auth.CreateToken(short)).secret)
    async with receiving() as receiver:
        hers, others = [await things_of(one, script, receiver.url) for one in (ana, bia)]

        for name, about in OF_ONE_OWNER.items():
            request = about.request(hers)
            cells = {
                "none": await ask(stranger, name, request),
                "expired": await ask(expired, name, request),
                "other": await ask(bia, name, request),
            }
            assert cells["none"][0] == Reason.TOKEN_REQUIRED, name
            assert cells["expired"][0] == Reason.TOKEN_EXPIRED, name
            assert cells["other"][0] == about.missing, name
            assert not any(one in cells["other"][1] for one in hers.ids), name
            if METHODS[name] > Role.READER:
                assert (await ask(reader, name, request))[0] == Reason.ROLE_REQUIRED, name
            elif about.shows:
                everything = (await ask(operator, name, request))[1]
                for things in (hers, others):
                    assert about.shows(things).encode() in everything, name
            reason, answer = await ask(ana, name, request)
            assert reason == "", name
            if about.shows:
                assert about.shows(hers).encode() in answer, name
            assert not any(one in answer for one in others.ids), name

        # What the other one has is all there.
        letters = await bia.admin.ListDeadLetters(admin_pb.ListDeadLettersRequest())
        assert [one.job_id for one in letters.dead_letters] == []
        assert await bia.text(others.job) == TEXT
        assert (
            await ask(
                bia,
                "CollectionService/GetReport",
                OF_ONE_OWNER["CollectionService/GetReport"].request(others),
            )
        )[0] == ""


async def test_for_the_rest_of_the_rpcs_no_token_and_an_expired_one_are_refused(
    stranger: Client, admin: Client
) -> None:
    short = auth_pb.CreateTokenRequest(subject="ana", role=token_pb2.ROLE_ADMIN)
    short.lifetime.CopyFrom(from_timedelta(timedelta(microseconds=1)))
    expired = stranger.with_token((await admin.auth.CreateToken(short)).secret)
    for name in METHODS.keys() - OPEN - OF_ONE_OWNER.keys():
        if RPCS[name].client_streaming:
            continue  # in the table of roles
        request = RPCS[name].input_type._concrete_class()
        assert (await ask(stranger, name, request))[0] == Reason.TOKEN_REQUIRED, name
        assert (await ask(expired, name, request))[0] == Reason.TOKEN_EXPIRED, name


async def test_a_request_id_and_a_cached_result_are_their_owners(
    stranger: Client, admin: Client, script: Script
) -> None:
    ana, bia = [
        stranger.with_token((await token_for(admin, name)).secret) for name in ("ana", "bia")
    ]
    hers = await ana.create(request_id="one", force=False)
    await ana.finished(hers.job_id)
    again = await ana.create(request_id="one", force=False)
    other = await bia.finished((await bia.create(request_id="one", force=False)).job_id)
    cached = await ana.finished((await ana.create(force=False)).job_id)

    assert again.job_id == hers.job_id != other.job_id
    assert (hers.owner, other.owner, cached.owner) == ("ana", "bia", "ana")
    assert (other.cached_from_job_id, cached.cached_from_job_id) == ("", hers.job_id)
    assert script.downloads == [URL, URL]

    request = collection_pb.CreateCollectionRequest(addresses=[URL], request_id="many")
    first, same, third = [
        (await one.collections.CreateCollection(request)).collection for one in (ana, ana, bia)
    ]
    assert first.collection_id == same.collection_id != third.collection_id
    assert (first.owner, third.owner) == ("ana", "bia")


async def test_members_of_a_collection_belong_to_its_owner(stranger: Client, admin: Client) -> None:
    ana, bia = [
        stranger.with_token((await token_for(admin, name)).secret) for name in ("ana", "bia")
    ]
    request = collection_pb.CreateCollectionRequest(addresses=[URL], force=True)
    made = (await ana.collections.CreateCollection(request)).collection
    watch = collection_pb.WatchCollectionRequest(collection_id=made.collection_id)
    async for _ in ana.collections.WatchCollection(watch):
        pass
    page = await ana.collections.GetCollection(
        collection_pb.GetCollectionRequest(collection_id=made.collection_id, page_size=1)
    )

    member = await ana.job(page.members[0].job_id)

    assert (member.owner, member.state) == ("ana", job_pb2.JOB_STATE_SUCCEEDED)
    assert await refusal(bia.job(member.job_id)) == NO_JOB


async def test_what_was_made_without_a_login_is_the_operators(
    start: Start, client: Client, first_token: str, tmp_path: Path
) -> None:
    job = await client.finished((await client.create()).job_id)
    async with start(login=True, token_file=str(tmp_path / "first.token")) as guarded:
        admin = guarded.with_token(first_token)
        ana = guarded.with_token((await token_for(admin, "ana")).secret)

        assert (await admin.job(job.job_id)).owner == ""
        assert await refusal(ana.job(job.job_id)) == NO_JOB
