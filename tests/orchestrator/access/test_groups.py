"""What is shared with a group exists for all its members, and for no one else."""

from typing import Any

import pytest

from mesh.reasons import Reason
from tests.orchestrator.access.asking import ask, things_of
from tests.orchestrator.access.conftest import token_for
from tests.orchestrator.access.table import ANSWERED, ASKED, About, of_rpc
from tests.orchestrator.webhooks.receiver import receiving
from tests.support.client import URL, Client, refusal
from tests.support.scripted import Script
from tests.support.segments import TEXT
from ytcaption.v1 import auth_service_pb2 as auth_pb
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import token_pb2


@pytest.fixture
def member(stranger: Client, admin: Client) -> Any:
    """Makes the token of a member of groups, and a client with it."""

    async def made(subject: str, *groups: str, role: Any = token_pb2.ROLE_SUBMITTER) -> Client:
        request = auth_pb.CreateTokenRequest(subject=subject, role=role, groups=groups)
        return stranger.with_token((await admin.auth.CreateToken(request)).secret)

    return made


async def test_the_table_of_groups_and_rpcs(member: Any, admin: Client, script: Script) -> None:
    ana, bia = await member("ana", "news"), await member("bia", "sports", "news")
    reader = await member("eva", "news", role=token_pb2.ROLE_READER)
    other, none = await member("ciro", "sports"), await member("duda")
    async with receiving() as receiver:
        hers = await things_of("ana", ana, admin, script, receiver.url)

        for name, about in ASKED.items():
            if about.about not in (About.THING, About.LIST):
                continue
            request, missing = about.request(hers), about.about is About.THING
            for outsider in (other, none):
                cell, answer = await ask(outsider, name, request)
                assert cell == (of_rpc(name).other if missing else ANSWERED), name
                assert not any(one in answer for one in hers.ids), name
            if shown := about.shows(hers).encode():
                assert shown in (await ask(reader, name, request))[1], name
            cell, answer = await ask(bia, name, request)
            assert cell == ANSWERED, name
            assert shown in answer, name


async def test_a_request_names_the_group_or_none_and_the_first_is_the_default(member: Any) -> None:
    bia = await member("bia", "sports", "news")
    jobs = [await bia.create(), await bia.create(group="news"), await bia.create(group="")]
    upload = await bia.upload(b"x", group="news")
    batches = [
        (await bia.collections.CreateCollection(request)).collection.group
        for request in (
            collection_pb.CreateCollectionRequest(addresses=[URL]),
            collection_pb.CreateCollectionRequest(addresses=[URL], group="news"),
            collection_pb.CreateCollectionRequest(addresses=[URL], group=""),
        )
    ]

    assert [job.group for job in (*jobs, upload)] == ["sports", "news", "", "news"]
    assert batches == ["sports", "news", ""]
    for group in ("weather", "bia"):
        assert await refusal(bia.create(group=group)) == Reason.GROUP_FORBIDDEN
        batch = collection_pb.CreateCollectionRequest(addresses=[URL], group=group)
        refused = await refusal(bia.collections.CreateCollection(batch))
        assert refused == Reason.GROUP_FORBIDDEN


async def test_members_of_a_shared_collection_are_shared_and_what_a_member_repeats_is_its_own(
    member: Any,
) -> None:
    ana, bia = await member("ana", "news"), await member("bia", "sports", "news")
    batch = collection_pb.CreateCollectionRequest(addresses=[URL])
    made = (await ana.collections.CreateCollection(batch)).collection
    watch = collection_pb.WatchCollectionRequest(collection_id=made.collection_id)
    async for _ in ana.collections.WatchCollection(watch):
        pass
    page = await bia.collections.GetCollection(
        collection_pb.GetCollectionRequest(collection_id=made.collection_id, page_size=1)
    )
    job_id = page.members[0].job_id
    again = (await bia.pipeline.RepeatJob(pb.RepeatJobRequest(job_id=job_id))).job

    assert await bia.text(job_id) == TEXT
    assert (again.owner, again.group) == ("bia", "news")


async def test_a_group_is_no_subject_and_a_subject_no_group(member: Any, admin: Client) -> None:
    ana = await member("ana", "news")
    job = await ana.create()
    named = admin.with_token  # the subject "news" is someone else
    news = named((await token_for(admin, "news")).secret)
    group = await member("bia", "ana")

    assert await refusal(news.job(job.job_id)) == Reason.JOB_NOT_FOUND
    assert await refusal(group.job(job.job_id)) == Reason.JOB_NOT_FOUND


async def test_sessions_have_the_groups_of_their_token(
    member: Any,
    stranger: Client,
) -> None:
    ana, bia = await member("ana", "news"), await member("bia", "news", "sports")
    job = await ana.create()
    session = (await bia.auth.CreateSession(auth_pb.CreateSessionRequest())).session
    code = (await bia.auth.CreateLink(auth_pb.CreateLinkRequest())).code
    linked = (await stranger.auth.OpenLink(auth_pb.OpenLinkRequest(code=code))).session
    for token in (session, linked):
        browser = stranger.with_token(token)
        caller = await browser.auth.GetCaller(auth_pb.GetCallerRequest())
        assert list(caller.groups) == ["news", "sports"]
        assert (await browser.job(job.job_id)).job_id == job.job_id


@pytest.mark.parametrize(
    "groups", [[""], ["a\nb"], ["x" * 129], ["a", "a"], list("abcdefghijklmnopqrstu")]
)
async def test_groups_that_make_no_sense_are_refused(admin: Client, groups: list[str]) -> None:
    request = auth_pb.CreateTokenRequest(
        subject="ana", role=token_pb2.ROLE_SUBMITTER, groups=groups
    )
    assert await refusal(admin.auth.CreateToken(request)) == Reason.REQUEST_INVALID


async def test_without_a_login_there_are_no_groups(client: Client) -> None:
    assert await refusal(client.create(group="news")) == Reason.GROUP_FORBIDDEN
    assert (await client.create()).group == ""
