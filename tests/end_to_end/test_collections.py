"""A channel with thirty recordings, some of which fail: every count is right."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from google.protobuf.duration import from_seconds

from tests.conftest import DATA, RealMesh, running_mesh
from tests.downloader.site import content
from tests.end_to_end.channel import (
    BROKEN,
    BUSY,
    FAILING,
    HANGING,
    MEMBERS,
    PERIOD,
    STALL_LIMIT_SECONDS,
    Channel,
    serving_channel,
)
from tests.end_to_end.reported import assert_reports, json_report
from tests.support.client import Client
from tests.support.collections import collect, counts, read, watch
from ytcaption.v1 import collection_pb2, job_pb2
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1 import pipeline_service_pb2 as pipeline_pb

ENDED = (
    collection_pb2.MEMBER_STATE_COMPLETED,
    collection_pb2.MEMBER_STATE_FAILED,
    collection_pb2.MEMBER_STATE_TIMED_OUT,
    collection_pb2.MEMBER_STATE_CANCELLED,
)
LEAST_SECONDS = 30
JOBS_TO_THE_DEADLINE = 60
"""The deadline leaves time for this many jobs in sequence, at the measured speed."""


@pytest.fixture(scope="module")
def tiny_mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesh]:
    """A mesh with long site timeouts and the fastest model."""
    variables: dict[str, Any] = {
        "TRANSCRIBER_MODEL": "tiny.en",
        "ORCHESTRATOR_CONCURRENCY": "5",
        "ORCHESTRATOR_STALL_SECONDS": str(STALL_LIMIT_SECONDS),
        "DOWNLOADER_SOCKET_TIMEOUT_SECONDS": str(STALL_LIMIT_SECONDS),
    }
    with running_mesh(tmp_path_factory.mktemp("tiny"), **variables) as running:
        yield running


@pytest.fixture
async def client(tiny_mesh: RealMesh) -> AsyncIterator[Client]:
    async with tiny_mesh.channel() as channel:
        yield Client(channel)


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[Channel]:
    with serving_channel(tmp_path) as running:
        yield running


class Watcher:
    """Records every update, and signals when the collection is gathered."""

    def __init__(self) -> None:
        self.seen: list[pb.WatchCollectionResponse] = []
        self.first_completed = asyncio.Event()
        self.gathered: asyncio.Future[collection_pb2.Collection] = asyncio.Future()

    async def follow(self, client: Client, collection_id: str) -> None:
        async for response in watch(client, collection_id):
            self.seen.append(response)
            if response.member.state == collection_pb2.MEMBER_STATE_COMPLETED:
                self.first_completed.set()
            if response.collection.HasField("end_time") and not self.gathered.done():
                self.gathered.set_result(response.collection)

    def ends(self) -> dict[int, list[str]]:
        """By number: the final states of each member, in order."""
        found: dict[int, list[str]] = defaultdict(list)
        for response in self.seen:
            if response.HasField("member") and response.member.state in ENDED:
                found[response.member.number].append(_name(response.member.state))
        return found


def _name(state: "collection_pb2.MemberState.ValueType") -> str:
    return collection_pb2.MemberState.Name(state).removeprefix("MEMBER_STATE_")


async def _seconds_of_a_job(client: Client, channel: Channel) -> float:
    """Measured on the second run, when everything is warm."""
    address = channel.site.url("/short.ogg", content((DATA / "short.ogg").read_bytes()))
    for _ in range(2):
        began = monotonic()
        await client.finished((await client.create(address)).job_id)
    return monotonic() - began


@pytest.mark.timeout(STALL_LIMIT_SECONDS)
async def test_counts_of_thirty_recordings_are_right_before_and_after_the_deadline(
    client: Client, channel: Channel
) -> None:
    seconds = max(
        LEAST_SECONDS, round(JOBS_TO_THE_DEADLINE * await _seconds_of_a_job(client, channel))
    )
    before = await _job_count(client)
    made = await collect(
        client,
        sources=[channel.feed],
        period=PERIOD,
        timeout=from_seconds(seconds),
        title="Thirty talks",
        correlation_id="thirty",
        force=False,
    )
    watcher = Watcher()
    watching = asyncio.create_task(watcher.follow(client, made.collection_id))

    await watcher.first_completed.wait()
    await _assert_still_listing(client, channel, made.collection_id)
    channel.list_on.set()

    gathered = await watcher.gathered
    _assert_partial_at_the_deadline(gathered)
    stored, members = await read(client, made.collection_id)
    assert counts(stored) == counts(gathered)
    assert [m.number for m in members if _name(m.state) == "TIMED_OUT"] == list(HANGING)
    report = await json_report(client, made.collection_id)
    assert report["collection"]["counts"] == counts(gathered)
    assert "late results may still come" in report["collection"]["summary"]
    channel.send_on.set()

    await watching
    settled, members = await read(client, made.collection_id)
    _assert_right_at_the_end(settled)
    _assert_members(channel, members)
    _assert_delivered_once(watcher, settled)
    await _assert_jobs(client, made.collection_id, members, before)
    await assert_reports(client, channel, made.collection_id)


async def _assert_still_listing(client: Client, channel: Channel, collection_id: str) -> None:
    found = (await client.collections.GetCollection(_request_for(collection_id))).collection

    assert channel.was_requested("/undated.ogg")
    assert not found.discovery_complete
    assert [listing.complete for listing in found.listings] == [False]
    assert 0 < found.member_count < MEMBERS


def _assert_partial_at_the_deadline(gathered: collection_pb2.Collection) -> None:
    assert gathered.state == collection_pb2.COLLECTION_STATE_PARTIAL
    assert counts(gathered) == {"COMPLETED": 25, "FAILED": 3, "TIMED_OUT": 2}
    assert (gathered.member_count, gathered.late_count) == (MEMBERS, 0)
    assert (gathered.settled, gathered.discovery_complete) == (False, True)
    assert gathered.end_time.ToNanoseconds() >= gathered.deadline.ToNanoseconds()
    (listing,) = gathered.listings
    assert (listing.found, listing.complete, listing.HasField("failure")) == (MEMBERS, True, False)


def _assert_right_at_the_end(settled: collection_pb2.Collection) -> None:
    assert settled.state == collection_pb2.COLLECTION_STATE_PARTIAL  # three failed for good
    assert counts(settled) == {"COMPLETED": 27, "FAILED": 3}
    assert (settled.member_count, settled.late_count) == (MEMBERS, 2)
    assert settled.settled


def _assert_members(channel: Channel, members: list[collection_pb2.Member]) -> None:
    assert [member.number for member in members] == list(range(1, MEMBERS + 1))
    for member in members:
        number = member.number
        assert member.source_url == channel.address(number)
        assert member.upload_date == f"2025-10-{number:02d}"
        assert member.late == (number in HANGING)
        assert member.attempt == (3 if number in (BUSY, BROKEN) else 1), member
        assert member.failure.reason == FAILING.get(number, ""), member
        assert member.title == channel.title(number)
        if number not in FAILING:
            assert _name(member.state) == "COMPLETED"
            assert member.language == "en"
    assert len({member.job_id for member in members}) == MEMBERS


def _assert_delivered_once(watcher: Watcher, settled: collection_pb2.Collection) -> None:
    sequences = [response.sequence for response in watcher.seen if response.sequence]
    assert sequences == sorted(set(sequences))
    assert watcher.ends() == {number: _ends_of(number) for number in range(1, MEMBERS + 1)}
    last = watcher.seen[-1].collection
    assert (last.settled, counts(last)) == (True, counts(settled))


def _ends_of(number: int) -> list[str]:
    if number in FAILING:
        return ["FAILED"]
    return ["TIMED_OUT", "COMPLETED"] if number in HANGING else ["COMPLETED"]


async def _assert_jobs(
    client: Client, collection_id: str, members: list[collection_pb2.Member], before: int
) -> None:
    """The jobs have the same results, and there are no others."""
    jobs = [await client.job(member.job_id) for member in members]
    assert Counter(job.state for job in jobs) == {
        job_pb2.JOB_STATE_SUCCEEDED: 27,
        job_pb2.JOB_STATE_FAILED: 3,
    }
    assert {(job.collection_id, job.correlation_id) for job in jobs} == {(collection_id, "thirty")}
    assert await _job_count(client) == before + MEMBERS
    assert "welcome" in (await client.text(members[0].job_id)).lower()


async def _job_count(client: Client) -> int:
    return (await client.pipeline.ListJobs(pipeline_pb.ListJobsRequest(page_size=1))).total_size


def _request_for(collection_id: str) -> pb.GetCollectionRequest:
    return pb.GetCollectionRequest(collection_id=collection_id)
