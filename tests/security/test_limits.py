"""Every text, list, time and page of every request is bounded, and so is every list answer."""

# ruff: noqa: F811 # parameters that are fixtures, imported from another room

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from mesh.bus import Bus
from mesh.errors import InvalidRequestError
from mesh.requests import LONG_LISTS, MAX_TEXT_BYTES, check_bounds
from mesh.status import reason_of
from orchestrator.jobs.index import JobTable
from orchestrator.jobs.store import JobStore
from tests.orchestrator.conftest import (  # noqa: F401 # fixtures
    broker,
    broker_bus,
    bus,
    client,
    grpc_core,
    patient,
    script,
    start,
)
from tests.support.client import URL, Client
from ytcaption.v1 import (
    admin_service_pb2,
    collection_service_pb2,
    downloader_service_pb2,
    job_pb2,
    media_pb2,
    normalizer_service_pb2,
    pipeline_service_pb2,
    quota_service_pb2,
    task_pb2,
    transcriber_service_pb2,
)
from ytcaption.v1 import pipeline_service_pb2 as pb

KIB, MIB = 1024, 1024**2
MODULES: tuple[Any, ...] = (
    admin_service_pb2,
    quota_service_pb2,
    collection_service_pb2,
    downloader_service_pb2,
    normalizer_service_pb2,
    pipeline_service_pb2,
    transcriber_service_pb2,
)
REQUESTS = [
    method.input_type
    for module in MODULES
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
TIMES = (Duration.DESCRIPTOR.full_name, Timestamp.DESCRIPTOR.full_name)
LEAVES = (*TIMES, Struct.DESCRIPTOR.full_name)
"""Messages whose fields are no places of their own: an object of JSON has itself in it."""


def fields_of(message: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every field of a message, through the messages in it."""
    for field in message.fields:
        yield (*path, field)
        if field.message_type is not None and field.message_type.full_name not in LEAVES:
            yield from fields_of(field.message_type, (*path, field))


def named(path: tuple[Any, ...]) -> str:
    return ".".join([path[0].containing_type.name, *(field.name for field in path)])


PATHS = [path for request in REQUESTS for path in fields_of(request)]
TEXTS = [path for path in PATHS if path[-1].type == path[-1].TYPE_STRING]
LISTS = [path for path in PATHS if path[-1].is_repeated]
CLOCKS = [
    path for path in PATHS if path[-1].message_type and path[-1].message_type.full_name in TIMES
]
NUMBERS = [path for path in PATHS if path[-1].cpp_type == path[-1].CPPTYPE_DOUBLE]


def request_with(path: tuple[Any, ...], value: Any) -> Message:
    """A request whose field at the path has the value."""
    request: Any = GetMessageClass(path[0].containing_type)()
    inner = request
    for field in path[:-1]:
        part = getattr(inner, field.name)
        inner = part.add() if field.is_repeated else part
    field = path[-1]
    if field.is_repeated:
        getattr(inner, field.name).extend(value)
    elif isinstance(value, Message):
        getattr(inner, field.name).CopyFrom(value)
    else:
        setattr(inner, field.name, value)
    return request  # type: ignore[no-any-return]


@pytest.mark.parametrize("path", TEXTS, ids=named)
def test_no_text_of_a_request_is_longer_than_its_bound(path: tuple[Any, ...]) -> None:
    text = "x" * (8 * KIB + 1)

    with pytest.raises(InvalidRequestError, match=path[-1].name):
        check_bounds(request_with(path, [text] if path[-1].is_repeated else text))


def test_a_text_is_measured_in_bytes() -> None:
    check_bounds(pb.CreateJobRequest(source_url="x" * 8 * KIB))
    with pytest.raises(InvalidRequestError):
        check_bounds(pb.CreateJobRequest(source_url="é" * 5 * KIB))


@pytest.mark.parametrize("path", LISTS, ids=named)
def test_no_list_of_a_request_is_longer_than_its_bound(path: tuple[Any, ...]) -> None:
    value: Any = 1 if path[-1].enum_type else "x"
    if path[-1].message_type:
        value = GetMessageClass(path[-1].message_type)()
    most = LONG_LISTS.get(path[-1].name, 100)

    check_bounds(request_with(path, [value] * most))
    with pytest.raises(InvalidRequestError, match=path[-1].name):
        check_bounds(request_with(path, [value] * (most + 1)))


@pytest.mark.parametrize(
    "numbers",
    [(2**63 - 1, 0), (-(2**63), 0), (315_576_000_001, 0), (0, 10**9), (1, -1)],
)
@pytest.mark.parametrize("path", CLOCKS, ids=named)
def test_a_duration_or_time_out_of_its_range_is_refused(
    path: tuple[Any, ...], numbers: tuple[int, int]
) -> None:
    kind: Any = GetMessageClass(path[-1].message_type)
    seconds, nanos = numbers

    with pytest.raises(InvalidRequestError, match=path[-1].name):
        check_bounds(request_with(path, kind(seconds=seconds, nanos=nanos)))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("path", NUMBERS, ids=named)
def test_a_number_is_finite(path: tuple[Any, ...], value: float) -> None:
    with pytest.raises(InvalidRequestError, match=path[-1].name):
        check_bounds(request_with(path, value))


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    """Status and reason of a call, unary or a stream, that fails."""
    try:
        answer = await (anext(aiter(call)) if hasattr(call, "__aiter__") else call)
    except grpc.aio.AioRpcError as error:
        return error.code(), reason_of(error)
    raise AssertionError(f"it succeeded: {answer}")


INVALID = (grpc.StatusCode.INVALID_ARGUMENT, "REQUEST_INVALID")


async def test_an_address_has_at_most_8_kib(client: Client) -> None:
    longest = URL + "?" + "x" * (8 * KIB - len(URL) - 1)

    job = await client.create(longest)

    assert job.source.url == longest
    assert await refusal(client.create(longest + "x")) == INVALID
    assert await refusal(client.create(URL + "x" * (MIB - 200))) == INVALID


async def test_what_this_version_does_not_know_is_not_stored(client: Client) -> None:
    options = job_pb2.JobOptions.FromString(b"\xa2\x06\xa0\xc2\x1e" + b"x" * 500_000)  # field 100
    assert options.ByteSize() > 500_000

    job = await client.create(options=options)

    assert (await client.job(job.job_id)).ByteSize() < 2000


WRONG_TOKENS = [
    "x",
    "-1",
    "9" * 30,
    "9" * 5000,
    "٣",
    "../..",
    "\x00",
    "G0000000-0000-7000-8000-000000000000",
]


@pytest.mark.parametrize("token", WRONG_TOKENS)
async def test_a_page_token_that_was_not_given_out_is_refused(
    client: Client,
    token: str,
) -> None:
    pipeline, collections, admin = client.pipeline, client.collections, client.admin
    made = await client.create()
    calls: list[Any] = [
        pipeline.ListJobs(pb.ListJobsRequest(page_token=token)),
        pipeline.WatchJobs(pb.WatchJobsRequest(page_token=token)),
        collections.ListCollections(
            collection_service_pb2.ListCollectionsRequest(page_token=token)
        ),
        collections.WatchCollections(
            collection_service_pb2.WatchCollectionsRequest(page_token=token)
        ),
        collections.GetCollection(
            collection_service_pb2.GetCollectionRequest(
                collection_id=made.job_id, page_token=token, page_size=1
            )
        ),
        admin.ListDeadLetters(admin_service_pb2.ListDeadLettersRequest(page_token=token)),
        admin.ListWebhookDeliveries(
            admin_service_pb2.ListWebhookDeliveriesRequest(page_token=token)
        ),
    ]

    assert [await refusal(call) for call in calls] == [INVALID] * len(calls)


@pytest.mark.parametrize("state", [0, 6, 77, -1])
async def test_a_state_that_no_job_can_have_is_refused(client: Client, state: Any) -> None:
    listing = client.pipeline.ListJobs(pb.ListJobsRequest(states=[state]))
    watch = client.pipeline.WatchJobs(pb.WatchJobsRequest(states=[job_pb2.JOB_STATE_QUEUED, state]))

    assert await refusal(listing) == INVALID
    assert await refusal(watch) == INVALID


def large_job(number: int) -> job_pb2.JobRecord:
    """A job as large as sites can make one: its chapters fill some 100 KB."""
    chapters = [media_pb2.Chapter(title="x" * 1000) for _ in range(100)]
    return job_pb2.JobRecord(
        job=job_pb2.Job(
            job_id=f"00000000-0000-7000-8000-{number:012}",
            state=job_pb2.JOB_STATE_SUCCEEDED,
            media=media_pb2.MediaInfo(chapters=chapters),
        )
    )


def test_a_page_ends_early_rather_than_over_4_mib_and_no_record_is_lost() -> None:
    table, token, found = JobTable(), "", []
    for number in range(200):
        table.put(large_job(number).job.job_id, large_job(number).SerializeToString())

    while True:
        page = table.page(200, token, ())
        answer = pb.ListJobsResponse(
            jobs=page.items, next_page_token=page.next_token, total_size=page.total
        )
        assert answer.ByteSize() <= 4 * MIB
        found += [job.job_id for job in page.items]
        token = page.next_token
        if not token:
            break

    assert found == [large_job(number).job.job_id for number in reversed(range(200))]


async def test_a_client_with_the_usual_limit_of_4_mib_can_list_large_jobs(
    bus: Bus,
    client: Client,
) -> None:
    for number in range(60):
        await JobStore(bus).create(large_job(number))

    first = await client.pipeline.ListJobs(pb.ListJobsRequest(page_size=200))
    token = first.next_page_token
    rest = await client.pipeline.ListJobs(pb.ListJobsRequest(page_size=200, page_token=token))
    watched = await anext(aiter(client.pipeline.WatchJobs(pb.WatchJobsRequest(page_size=200))))

    assert len(first.jobs) + len(rest.jobs) == 60
    assert first.total_size == 60
    assert watched == pb.WatchJobsResponse.FromString(first.SerializeToString())


@pytest.mark.parametrize(
    "content",
    [
        {"a": "x" * (MAX_TEXT_BYTES + 1)},
        {"x" * (MAX_TEXT_BYTES + 1): 1},
        {"a": [{"b": "x" * (MAX_TEXT_BYTES + 1)}]},
        {"a": float("nan")},
        {"a": [1] * 100_000},
    ],
)
def test_an_object_of_json_is_bounded_like_everything_else(content: dict[str, Any]) -> None:
    given = Struct()
    given.update(content)
    spec = task_pb2.SourceSpec(type="blog", parameters=given)

    with pytest.raises(InvalidRequestError):
        check_bounds(collection_service_pb2.CreateCollectionRequest(source_specs=[spec]))
