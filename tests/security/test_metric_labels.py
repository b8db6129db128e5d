"""Labels of metrics come from closed sets: callers cannot make the series of a service grow."""

import asyncio
from typing import Any

import grpc
import httpx2
import pytest
from google.protobuf import any_pb2
from google.rpc import code_pb2
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status
from prometheus_client import REGISTRY, generate_latest
from starlette.responses import PlainTextResponse
from starlette.types import Message

from gateway.http.observability import ObservabilityMiddleware
from mesh.reasons import Reason
from mesh.server import running_server
from mesh.status import reason_of, to_error
from tests.mesh.echo import echo_service
from tests.support.controlled_collections import ControlledCollection, serving_collections
from tests.support.http import running_gateway

NUMBER = 1000
AT_ONCE = 20
PREFIXES = (
    "/ytcaption.v1.DownloaderService/Method",
    "/ytcaption.v1.NoService/Method",
    "/grpc.health.v1.Health/Method",
    "/Method",
)
PATHS = ("/nothing-", "/collections/", "/static/", "/docs/assets/")


def _series() -> set[str]:
    """Every series of ours that a scrape shows, without its value."""
    lines = generate_latest(REGISTRY).decode().splitlines()
    return {line.rpartition(" ")[0] for line in lines if line.startswith("ytcaption_")}


async def test_a_thousand_unknown_methods_make_no_series() -> None:
    async with (
        running_server([echo_service(None)]) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        before = _series()

        async def call(number: int) -> str:
            method = f"{PREFIXES[number % len(PREFIXES)]}{number}"
            send: Any = channel.unary_unary(method)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await send(b"")
            return reason_of(caught.value)

        reasons = {await call(number) for number in range(NUMBER)}

    assert reasons == {"NOT_IMPLEMENTED"}
    assert _series() == before


async def test_a_thousand_unknown_paths_make_one_series_for_each_route() -> None:
    async with (
        serving_collections(ControlledCollection()) as address,
        running_gateway(orchestrator=address) as client,
    ):
        statuses = await _get(client, range(NUMBER))
        seen = _series()
        again = await _get(client, range(NUMBER, 2 * NUMBER))

    assert statuses | again == {404}
    assert _series() == seen
    assert not any("nothing-" in line for line in seen)


async def _get(client: httpx2.AsyncClient, numbers: range) -> set[int]:
    free = asyncio.Semaphore(AT_ONCE)

    async def get(number: int) -> int:
        async with free:
            return (await client.get(f"{PATHS[number % len(PATHS)]}{number}")).status_code

    return set(await asyncio.gather(*map(get, numbers)))


async def test_a_thousand_http_methods_make_one_series() -> None:
    async def request(method: str) -> None:
        scope = {"type": "http", "method": method, "path": "/", "headers": []}
        await ObservabilityMiddleware(PlainTextResponse("", 405))(scope, _receive, _drop)

    await request("UNKNOWN")
    before = _series()

    for number in range(NUMBER):
        await request(f"METHOD{number}")

    assert _series() == before
    labels = {"method": "other", "route": "none", "status": "405"}
    assert (REGISTRY.get_sample_value("ytcaption_http_requests_total", labels) or 0) > NUMBER


async def _receive() -> Message:
    return {"type": "http.request"}


async def _drop(_: Message) -> None:
    pass


async def test_a_thousand_reasons_of_a_foreign_stage_are_one() -> None:
    found: set[Reason] = set()
    for number in range(NUMBER):
        detail = any_pb2.Any()
        detail.Pack(ErrorInfo(reason=f"REASON_{number}", domain="ytcaption"))
        sent = Status(code=code_pb2.INTERNAL, message="foreign", details=[detail])
        trailing = grpc.aio.Metadata(*rpc_status.to_status(sent).trailing_metadata)
        error = grpc.aio.AioRpcError(
            grpc.StatusCode.INTERNAL, grpc.aio.Metadata(), trailing, "foreign"
        )
        assert reason_of(error) == f"REASON_{number}"
        found.add(to_error(error).reason)

    assert found == {Reason.INTERNAL}
