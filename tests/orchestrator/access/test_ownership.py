"""What belongs to one owner does not exist for another; operators and admins see everything."""

from pathlib import Path

from mesh.reasons import Reason
from tests.orchestrator.access.conftest import token_for
from tests.orchestrator.conftest import Start
from tests.support.client import URL, Client, refusal
from tests.support.scripted import Script
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import (
    job_pb2,
)

NO_JOB = Reason.JOB_NOT_FOUND


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
