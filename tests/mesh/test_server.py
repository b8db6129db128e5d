"""Behaviour all services share: correlation, logs, metrics, health, statuses."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace

import grpc
import pytest
import structlog
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from prometheus_client import REGISTRY
from structlog.contextvars import bound_contextvars

from mesh.channel import open_channel
from mesh.correlation import KEY, adopt, call_metadata
from mesh.errors import UnavailableError, UnusableMediaError
from mesh.frames import read_data, read_start, truthful
from mesh.logs import configure_logs
from mesh.reasons import Reason
from mesh.server import RunningServer, Service, running_server
from mesh.status import reason_of
from tests.mesh.echo import echo_service
from ytcaption.v1 import downloader_service_pb2 as pb
from ytcaption.v1 import downloader_service_pb2_grpc as rpc
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import normalizer_service_pb2_grpc as normalizer_rpc

NAME = "ytcaption.v1.DownloaderService"


@pytest.fixture
async def server() -> AsyncIterator[RunningServer]:
    async with running_server([echo_service(None)], grace_seconds=0) as running:
        yield running


async def test_the_callers_correlation_id_is_kept_and_returned(server: RunningServer) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        call = rpc.DownloaderServiceStub(channel).Download(
            pb.DownloadRequest(), metadata=((KEY, "thread-1"),)
        )
        titles = [response.media.title async for response in call]
        metadata = dict(await call.initial_metadata())

    assert titles == ["thread-1"]
    assert metadata[KEY] == "thread-1"


@pytest.mark.parametrize("given", ["fil d'été", "tab\there", "線"])
async def test_a_correlation_id_that_is_not_ascii_arrives_too(
    server: RunningServer, given: str
) -> None:
    with bound_contextvars(correlation_id=given):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            call = rpc.DownloaderServiceStub(channel).Download(
                pb.DownloadRequest(), metadata=call_metadata()
            )
            titles = [response.media.title async for response in call]

    assert titles == [given]


async def test_a_call_without_a_correlation_id_gets_one(server: RunningServer) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        call = rpc.DownloaderServiceStub(channel).Download(pb.DownloadRequest())
        titles = [response.media.title async for response in call]

    assert len(titles[0]) == 36


@pytest.fixture
def restored_logs() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


@pytest.mark.usefixtures("restored_logs")
async def test_log_lines_are_json_with_the_correlation_id(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs("tester", "INFO", "json")
    adopt("thread-2")
    structlog.get_logger("here").info("hello", answer=42)

    line = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert line["event"] == "hello"
    assert (line["correlation_id"], line["service"], line["answer"]) == ("thread-2", "tester", 42)


async def test_every_rpc_is_counted_by_its_code(server: RunningServer) -> None:
    labels = {"method": f"/{NAME}/Download", "code": "OK"}
    before = REGISTRY.get_sample_value("ytcaption_rpcs_total", labels) or 0
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        _ = [r async for r in rpc.DownloaderServiceStub(channel).Download(pb.DownloadRequest())]

    assert REGISTRY.get_sample_value("ytcaption_rpcs_total", labels) == before + 1


async def test_a_port_in_use_is_a_clear_error(server: RunningServer) -> None:
    with pytest.raises(UnavailableError, match=f"cannot listen on 127.0.0.1:{server.port}"):
        async with running_server([], f"127.0.0.1:{server.port}"):
            pass


async def test_a_replica_that_is_not_serving_gets_no_calls(server: RunningServer) -> None:
    async with running_server([echo_service(None)], grace_seconds=0) as other:
        await other.set_serving(False)
        both = f"127.0.0.1:{server.port},127.0.0.1:{other.port}"
        async with open_channel(both, NAME) as channel:
            stub = rpc.DownloaderServiceStub(channel)
            for _ in range(20):
                assert [r async for r in stub.Download(pb.DownloadRequest(), wait_for_ready=True)]
        async with open_channel(f"127.0.0.1:{other.port}", NAME) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                _ = [
                    r
                    async for r in rpc.DownloaderServiceStub(channel).Download(pb.DownloadRequest())
                ]

    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_health_is_answered_by_service_name(server: RunningServer) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        request = HealthCheckRequest(service=NAME)
        answer = await HealthStub(channel).Check(request)  # type: ignore[attr-defined]

    assert answer.status == HealthCheckResponse.SERVING


class RefusingNormalizer(normalizer_rpc.NormalizerServiceServicer):
    """Refuses in the middle of the client's stream."""

    async def Normalize(  # noqa: N802
        self,
        request_iterator: AsyncIterator[normalizer_pb.NormalizeRequest],
        context: object,
    ) -> AsyncIterator[normalizer_pb.NormalizeResponse]:
        await read_start(request_iterator)
        yield normalizer_pb.NormalizeResponse(started=normalizer_pb.NormalizeStarted())
        async for _ in read_data(request_iterator, "chunk"):
            raise UnusableMediaError("no", reason=Reason.NOT_MEDIA)


async def test_a_refusal_in_mid_stream_keeps_its_reason() -> None:
    service = Service.of(
        normalizer_pb.DESCRIPTOR.services_by_name["NormalizerService"],
        normalizer_rpc.add_NormalizerServiceServicer_to_server,
        RefusingNormalizer(),  # type: ignore[abstract]
    )

    async def frames() -> AsyncIterator[normalizer_pb.NormalizeRequest]:
        yield normalizer_pb.NormalizeRequest(start=normalizer_pb.NormalizeStart())
        for _ in range(100):
            yield normalizer_pb.NormalizeRequest(chunk=b"x" * 60_000)

    async with (
        running_server([service], grace_seconds=0) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        stub = normalizer_rpc.NormalizerServiceStub(channel)
        for _ in range(50):  # without truthful() about half of them say INTERNAL
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                _ = [response async for response in truthful(stub.Normalize(frames()))]
            assert reason_of(caught.value) == "NOT_MEDIA"


class Flooding(rpc.DownloaderServiceServicer):
    """Answers until its caller leaves."""

    async def Download(  # noqa: N802
        self, request: pb.DownloadRequest, context: object
    ) -> AsyncIterator[pb.DownloadResponse]:
        while True:
            yield pb.DownloadResponse(chunk=b"x" * 60_000)


async def test_a_stream_its_caller_leaves_ends_in_the_context_it_began_in() -> None:
    ended = asyncio.Event()
    left: list[str] = []
    inside = ContextVar("inside", default="outside")

    @asynccontextmanager
    async def guard(context: object, method: str) -> AsyncIterator[None]:
        before = inside.set(method)
        try:
            yield
        finally:
            ended.set()
            inside.reset(before)  # raises in another context
            left.append(inside.get())

    flooding = Service.of(
        pb.DESCRIPTOR.services_by_name["DownloaderService"],
        rpc.add_DownloaderServiceServicer_to_server,
        Flooding(),  # type: ignore[abstract]
    )
    async with (
        running_server([replace(flooding, guard=guard)], grace_seconds=0) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        # Unread answers fill the window, so the call is left between two of them.
        call = rpc.DownloaderServiceStub(channel).Download(pb.DownloadRequest(job_id="x"))
        await call.read()
        call.cancel()
        async with asyncio.timeout(60):
            await ended.wait()

    assert left == ["outside"]
