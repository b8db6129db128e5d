"""The gRPC channel to an orchestrator: stubs, calls, errors, and probes of single services."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, TypeVar

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from cli.exits import CommandError, Exit, code_of_status
from cli.render.text import for_terminal
from mesh import correlation
from mesh.addresses import split
from mesh.status import reason_of
from ytcaption.v1.admin_service_pb2_grpc import AdminServiceStub
from ytcaption.v1.collection_service_pb2_grpc import CollectionServiceStub
from ytcaption.v1.media_pb2 import ModelPreparation
from ytcaption.v1.pipeline_service_pb2_grpc import PipelineServiceStub
from ytcaption.v1.transcriber_service_pb2 import GetModelStateRequest
from ytcaption.v1.transcriber_service_pb2_grpc import TranscriberServiceStub

UNARY_SECONDS = 60
CANCEL_SECONDS = 10.0
"""Deadline of each call that is made after an interruption, or after a job that ended badly."""

PROBE_SECONDS = 2

OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # A server that comes back is noticed at once, not after gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # In spite of its name the time limit of one connection attempt, handshake included.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    # Otherwise a stalled reader makes the server buffer megabytes.
    ("grpc.http2.bdp_probe", 0),
)

ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True, slots=True)
class Server:
    """The stubs of one orchestrator."""

    address: str
    pipeline: PipelineServiceStub
    admin: AdminServiceStub
    collections: CollectionServiceStub


def open_channel(address: str) -> grpc.aio.Channel:
    """Opens a plaintext channel: the mesh is local, or behind a proxy that adds TLS."""
    host, _ = split(address)
    # A proxy in the environment is not for loopback, whatever no_proxy says.
    proxy = (("grpc.enable_http_proxy", 0),) if _is_loopback(host) else ()
    return grpc.aio.insecure_channel(address, options=(*OPTIONS, *proxy))


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Server]:
    """Opens the stubs of one server; an rpc error ends the command in one line."""
    correlation.adopt(correlation.new_id())
    try:
        async with open_channel(address) as channel:
            yield Server(
                address,
                PipelineServiceStub(channel),
                AdminServiceStub(channel),
                CollectionServiceStub(channel),
            )
    except grpc.aio.AioRpcError as error:
        raise as_command_error(error, address) from error


async def call(
    method: Callable[..., Awaitable[ResponseT]],
    request: object,
    seconds: float | None = UNARY_SECONDS,
) -> ResponseT:
    """Makes a unary call with this command's correlation id; None: without a deadline."""
    return await method(request, timeout=seconds, metadata=correlation.call_metadata())


def as_command_error(error: grpc.aio.AioRpcError, address: str) -> CommandError:
    """Maps an rpc error to one line for people, and a reason and exit code for programs."""
    status, reason = error.code(), reason_of(error)
    if status is grpc.StatusCode.UNAVAILABLE and not reason:
        return CommandError(
            f"no ytcaption server answers at {address}; start one with `ytcaption up`",
            Exit.UNAVAILABLE,
            status.name,
        )
    message = for_terminal(error.details() or "the server gave no reason")
    return CommandError(message, code_of_status(status.name), reason or status.name)


async def is_serving(address: str) -> bool | None:
    """Returns the answer of the standard health check; None without an answer."""
    async with open_channel(address) as channel:
        stub: Any = HealthStub(channel)  # its stubs are untyped
        try:
            answer = await stub.Check(HealthCheckRequest(), timeout=PROBE_SECONDS)
        except grpc.aio.AioRpcError:
            return None
    return bool(answer.status == HealthCheckResponse.SERVING)


async def answers_http(address: str) -> bool:
    """Whether a gateway answers its liveness check, whatever the state of the mesh."""
    host, port = split(address)
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(f"GET /live HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
                return b" 200 " in await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


async def model_preparation(address: str) -> ModelPreparation | None:
    """How far a transcriber is with its model; None if it is ready or does not answer."""
    async with open_channel(address) as channel:
        try:
            state = await TranscriberServiceStub(channel).GetModelState(
                GetModelStateRequest(), timeout=PROBE_SECONDS
            )
        except grpc.aio.AioRpcError:
            return None
    return state.preparing if state.HasField("preparing") else None
