"""Members that are found: while the listing goes on, once each, through every break."""

from mesh.errors import SourceRefusedError, UnavailableError
from mesh.reasons import Reason
from tests.orchestrator.conftest import Start
from tests.support.client import Client
from tests.support.collections import (
    SOURCE,
    addresses,
    collect,
    counts,
    read,
    settled,
    states,
    until_states,
)
from tests.support.scripted import Script
from ytcaption.v1 import collection_pb2, job_pb2, media_pb2


async def test_the_first_recording_is_transcribed_while_the_listing_still_runs(
    client: Client, script: Script
) -> None:
    script.listings = {SOURCE: addresses(3)}
    script.pause_listing_at = 1
    made = await collect(client, sources=[SOURCE])
    await until_states(client, made.collection_id, COMPLETED=1)
    meanwhile, members = await read(client, made.collection_id)
    script.list_on.set()
    collection, _ = await settled(client, made.collection_id)

    assert (meanwhile.discovery_complete, len(members)) == (False, 1)
    assert (members[0].title, members[0].upload_date) == ("Talk 1", "2025-10-07")
    assert counts(collection) == {"COMPLETED": 3}
    (listing,) = collection.listings
    assert (listing.source, listing.complete, listing.found) == (SOURCE, True, 3)


async def test_the_listing_request_carries_the_callers_options(
    client: Client, script: Script
) -> None:
    script.listings = {"ytsearch2:bees": addresses(1)}
    manner = media_pb2.DownloadOptions(user_agent="me")
    made = await collect(
        client,
        sources=["ytsearch2:bees"],
        period="2025-10",
        options=job_pb2.JobOptions(download=manner),
    )
    collection, _ = await settled(client, made.collection_id)

    (asked,) = script.resolves
    assert (asked.source_url, asked.period, asked.options) == ("ytsearch2:bees", "2025-10", manner)
    assert (collection.from_date, collection.to_date) == ("2025-10-01", "2025-10-31")


async def test_a_listing_that_breaks_off_is_retried_and_duplicates_no_member(
    client: Client, script: Script
) -> None:
    script.listings = {SOURCE: addresses(4)}
    lost = UnavailableError("lost", reason=Reason.NETWORK_ERROR)
    script.listing_failures = [(2, lost), (3, lost)]
    made = await collect(client, sources=[SOURCE])
    collection, members = await settled(client, made.collection_id)

    assert len(script.resolves) == 3
    assert [member.source_url for member in members] == addresses(4)
    assert collection.state == collection_pb2.COLLECTION_STATE_COMPLETE


async def test_a_listing_that_fails_permanently_keeps_what_it_found(
    client: Client, script: Script
) -> None:
    other = f"{SOURCE}/other"
    script.listings = {SOURCE: addresses(3), other: addresses(1, "other")}
    script.listing_failures = [(2, SourceRefusedError("private", reason=Reason.VIDEO_PRIVATE))]
    made = await collect(client, sources=[SOURCE, other])
    collection, members = await settled(client, made.collection_id)

    broken, whole = collection.listings
    assert (broken.failure.reason, broken.found, broken.complete) == ("VIDEO_PRIVATE", 2, True)
    assert (whole.HasField("failure"), whole.found) == (False, 1)
    assert states(members) == ["COMPLETED"] * 3
    assert collection.state == collection_pb2.COLLECTION_STATE_PARTIAL, "something is missing"


async def test_a_listed_recording_that_is_already_a_member_is_not_added_again(
    client: Client, script: Script
) -> None:
    other = f"{SOURCE}/other"
    script.listings = {SOURCE: addresses(3), other: [*addresses(3), *addresses(1, "other")]}
    made = await collect(client, addresses(3)[2], sources=[SOURCE, other])
    collection, members = await settled(client, made.collection_id)

    third, first, second = addresses(3)[2], *addresses(2)
    assert [one.source_url for one in members] == [third, first, second, *addresses(1, "other")]
    assert [one.found for one in collection.listings] == [3, 4]


async def test_reaching_the_callers_limit_is_no_failure_but_reaching_ours_is(
    start: Start, script: Script
) -> None:
    script.listings = {SOURCE: addresses(5)}
    async with start(max_members=3) as client:
        asked = await collect(client, sources=[SOURCE], max_members=2)
        unasked = await collect(client, sources=[SOURCE])
        limited, two = await settled(client, asked.collection_id)
        cut, three = await settled(client, unasked.collection_id)

    assert (len(two), len(three)) == (2, 3)
    assert limited.state == collection_pb2.COLLECTION_STATE_COMPLETE
    assert cut.listings[0].failure.reason == "TOO_LARGE"
    assert cut.state == collection_pb2.COLLECTION_STATE_PARTIAL


async def test_a_collection_whose_source_lists_nothing_ends_at_once(
    client: Client, script: Script
) -> None:
    script.listings = {SOURCE: []}
    made = await collect(client, sources=[SOURCE])
    collection, members = await settled(client, made.collection_id)

    assert not members
    assert collection.state == collection_pb2.COLLECTION_STATE_COMPLETE


async def test_a_takeover_during_a_listing_lists_again_and_duplicates_no_member(
    start: Start, script: Script
) -> None:
    script.listings = {SOURCE: addresses(4)}
    script.pause_listing_at = 2
    async with start() as client:
        made = await collect(client, sources=[SOURCE])
        await until_states(client, made.collection_id, COMPLETED=2)
    script.list_on.set()
    async with start() as client:
        collection, members = await settled(client, made.collection_id)

    assert [member.source_url for member in members] == addresses(4)
    assert sorted(script.downloads) == addresses(4), "each was fetched once"
    assert counts(collection) == {"COMPLETED": 4}


async def test_a_takeover_does_not_list_again_a_source_that_was_listed_completely(
    start: Start, script: Script
) -> None:
    other = f"{SOURCE}/other"
    script.listings = {SOURCE: addresses(1), other: addresses(3, "other")}
    script.pause_listing_at = 2
    async with start() as client:
        made = await collect(client, sources=[SOURCE, other])
        await until_states(client, made.collection_id, COMPLETED=3)
    script.list_on.set()
    async with start() as client:
        collection, _ = await settled(client, made.collection_id)

    assert [asked.source_url for asked in script.resolves] == [SOURCE, other, other]
    assert counts(collection) == {"COMPLETED": 4}
