"""Every error we define has a status, and comes back as the same error."""

import grpc
import pytest

from mesh.errors import (
    InternalError,
    InvalidRequestError,
    LimitExceededError,
    MeshError,
    UnusableMediaError,
)
from mesh.reasons import RETRYABLE, Reason
from mesh.server import running_server
from mesh.status import CODES, reason_of, to_error, to_status
from tests.mesh.echo import echo_service
from ytcaption.v1 import downloader_service_pb2 as pb
from ytcaption.v1 import downloader_service_pb2_grpc as rpc


def test_every_error_has_a_code() -> None:
    assert set(MeshError.__subclasses__()) == set(CODES)


def test_subclasses_inherit_the_code_of_their_parent() -> None:
    for kind in CODES:
        narrower = type("NarrowerError", (kind,), {})
        assert to_status(narrower("x", reason=Reason.INTERNAL)).code is CODES[kind]


def test_a_deadline_that_passes_as_a_status_arrives_counts_as_a_deadline() -> None:
    late = to_status(InvalidRequestError("wrong"))
    metadata = grpc.aio.Metadata(*late.trailing_metadata)
    error = grpc.aio.AioRpcError(
        grpc.StatusCode.DEADLINE_EXCEEDED, grpc.aio.Metadata(), metadata, "late"
    )

    assert reason_of(error) == ""
    assert to_error(error).reason is Reason.DEADLINE


def test_every_reason_spells_its_own_name() -> None:
    assert all(reason.name == reason.value for reason in Reason)
    assert set(Reason) > RETRYABLE


@pytest.mark.parametrize("kind", [kind for kind in CODES if kind is not UnusableMediaError])
async def test_an_error_survives_the_wire(kind: type[MeshError]) -> None:
    raised = kind("no such luck", reason=Reason.NO_AUDIO)
    async with (
        running_server([echo_service(raised)], grace_seconds=0) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            _ = [r async for r in rpc.DownloaderServiceStub(channel).Download(pb.DownloadRequest())]

    back = to_error(caught.value)
    assert (type(back), str(back), back.reason) == (kind, "no such luck", Reason.NO_AUDIO)


async def test_metadata_and_time_of_a_refusal_arrive_at_the_caller() -> None:
    metadata = {"limit": "queued_jobs", "maximum": "2", "used": "2"}
    refusal = LimitExceededError(
        "full", reason=Reason.QUOTA_EXCEEDED, retry_after_seconds=7.5, metadata=metadata
    )
    async with (
        running_server([echo_service(refusal)], grace_seconds=0) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            _ = [r async for r in rpc.DownloaderServiceStub(channel).Download(pb.DownloadRequest())]

    error = to_error(caught.value)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert (error.metadata, error.retry_after_seconds, error.retryable) == (metadata, 7.5, True)


async def test_an_internal_error_reveals_no_details_to_the_caller() -> None:
    async with (
        running_server([echo_service(ZeroDivisionError("secret"))], grace_seconds=0) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            _ = [r async for r in rpc.DownloaderServiceStub(channel).Download(pb.DownloadRequest())]

    assert caught.value.details() == "internal error"
    assert isinstance(to_error(caught.value), InternalError)


async def test_an_unimplemented_rpc_has_its_reason() -> None:
    async with (
        running_server([echo_service(None)], grace_seconds=0) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        stub = rpc.DownloaderServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as unary:
            await stub.Purge(pb.DownloaderServicePurgeRequest())
        with pytest.raises(grpc.aio.AioRpcError) as stream:
            _ = [r async for r in stub.Resolve(pb.ResolveRequest())]

    for caught in (unary, stream):
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert reason_of(caught.value) == "NOT_IMPLEMENTED"
