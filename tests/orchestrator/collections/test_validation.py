"""Collections that can never be, refused when they are asked for."""

from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from tests.orchestrator.conftest import Start
from tests.support.client import refusal
from tests.support.collections import SOURCE, addresses
from tests.support.scripted import Script
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1 import job_pb2

TOO_LONG = [f"{SOURCE}/{number}/{'x' * 8000}" for number in range(70)]
"""Too many bytes together; each alone is allowed."""
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "REQUEST_INVALID"),
    ({"addresses": [" "]}, "REQUEST_INVALID"),
    ({"sources": ["file:///etc/passwd"]}, "UNSUPPORTED_URL"),
    ({"sources": [f"{SOURCE}/{number}" for number in range(21)]}, "REQUEST_INVALID"),
    ({"addresses": addresses(51)}, "REQUEST_INVALID"),
    ({"addresses": [f"{SOURCE}/{'x' * 9000}"]}, "REQUEST_INVALID"),
    ({"addresses": TOO_LONG[:50], "sources": TOO_LONG[50:]}, "REQUEST_INVALID"),
    ({"sources": [SOURCE], "period": "last year"}, "REQUEST_INVALID"),
    ({"sources": [SOURCE], "period": "2025", "from_date": "2025-01-01"}, "REQUEST_INVALID"),
    ({"sources": [SOURCE], "from_date": "2025-02-30"}, "REQUEST_INVALID"),
    ({"addresses": addresses(1), "period": "2025"}, "REQUEST_INVALID"),
    ({"addresses": addresses(1), "timeout": Duration()}, "REQUEST_INVALID"),
    ({"addresses": addresses(1), "timeout": Duration(seconds=-1)}, "REQUEST_INVALID"),
    ({"addresses": addresses(1), "timeout": Duration(seconds=10**11)}, "REQUEST_INVALID"),
    ({"addresses": addresses(1), "max_in_flight": 1001}, "REQUEST_INVALID"),
    ({"addresses": addresses(1), "max_in_flight": -1}, "REQUEST_INVALID"),
    ({"addresses": addresses(1), "max_members": 51}, "REQUEST_INVALID"),
    ({"addresses": addresses(2), "max_members": 1}, "REQUEST_INVALID"),
    ({"addresses": addresses(1), "title": "x" * 201}, "REQUEST_INVALID"),
    ({"addresses": addresses(1), "request_id": "x" * 129}, "REQUEST_INVALID"),
    (
        {"addresses": addresses(1), "options": job_pb2.JobOptions(beam_size=11)},
        "REQUEST_INVALID",
    ),
    (
        {"addresses": addresses(1), "options": job_pb2.JobOptions(isolate_vocals=True)},
        "OPTION_UNSUPPORTED",
    ),
]


async def test_requests_that_can_never_succeed_are_refused_on_submission(
    start: Start, script: Script
) -> None:
    script.missing = {"isolate_vocals": "not installed"}
    async with start(max_members=50) as client:
        for fields, reason in REFUSED:
            call = client.collections.CreateCollection(pb.CreateCollectionRequest(**fields))
            assert await refusal(call) == reason, fields
        listed = await client.collections.ListCollections(pb.ListCollectionsRequest())

    assert not listed.collections


@pytest.mark.parametrize(("named", "limit"), [(None, 90), (7, 7)])
async def test_the_operators_time_limit_counts_where_a_request_names_none(
    start: Start, script: Script, named: int | None, limit: int
) -> None:
    script.hanging = set(addresses(1))
    timeout = None if named is None else Duration(seconds=named)
    async with start(fan_in_seconds=90) as client:
        request = pb.CreateCollectionRequest(addresses=addresses(1), timeout=timeout)
        found = (await client.collections.CreateCollection(request)).collection
        script.go_on.set()

    assert found.deadline.ToNanoseconds() - found.create_time.ToNanoseconds() == limit * 10**9
