"""The gRPC channel to an orchestrator: stubs, calls, errors, and probes of single services."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from cli.exits import CommandError, Exit, code_of_status
from cli.render.text import for_terminal
from mesh import correlation
from mesh.addresses import is_loopback, split
from mesh.bearer import metadata_of, present
from mesh.grpc_tls import channel_to
from mesh.status import reason_of
from mesh.tls import PLAIN, Tls
from ytcaption.v1.admin_service_pb2_grpc import AdminServiceStub
from ytcaption.v1.auth_service_pb2_grpc import AuthServiceStub
from ytcaption.v1.collection_service_pb2_grpc import CollectionServiceStub
from ytcaption.v1.media_pb2 import ModelPreparation
from ytcaption.v1.pipeline_service_pb2_grpc import PipelineServiceStub
from ytcaption.v1.quota_service_pb2_grpc import QuotaServiceStub
from ytcaption.v1.search_service_pb2_grpc import SearchServiceStub
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
    auth: AuthServiceStub
    quotas: QuotaServiceStub
    searching: SearchServiceStub


def open_channel(address: str, tls: Tls = PLAIN) -> grpc.aio.Channel:
    """Opens a channel to one server."""
    host, _ = split(address)
    # A proxy in the environment is not for loopback, whatever no_proxy says.
    proxy = (("grpc.enable_http_proxy", 0),) if is_loopback(host) else ()
    return channel_to(address, tls.read() if tls.ca else None, (*OPTIONS, *proxy))


def tls_of_command() -> Tls:
    """How the command calls a mesh that it did not start: YTCAPTION_TLS_*."""
    tls = Tls.from_environment("YTCAPTION", os.environ)
    tls.check("YTCAPTION_")
    return tls


@asynccontextmanager
async def connected(address: str, tls: Tls = PLAIN, token: str = "") -> AsyncIterator[Server]:
    """Opens the stubs of one server; an rpc error ends the command in one line.

    Every call carries the token, if there is one.
    """
    correlation.adopt(correlation.new_id())
    present(token)
    try:
        async with open_channel(address, tls) as channel:
            yield Server(
                address,
                PipelineServiceStub(channel),
                AdminServiceStub(channel),
                CollectionServiceStub(channel),
                AuthServiceStub(channel),
                QuotaServiceStub(channel),
                SearchServiceStub(channel),
            )
    except grpc.aio.AioRpcError as error:
        if _is_unanswered(error) and (why := await _tls_trouble(error, address, tls)):
            raise CommandError(why, Exit.UNAVAILABLE, error.code().name) from error
        raise as_command_error(error, address) from error


async def _tls_trouble(error: grpc.aio.AioRpcError, address: str, tls: Tls) -> str:
    """Why there is no connection, if TLS may be the reason."""
    if tls.ca:
        hint = "" if tls.certificate else "; it may want YTCAPTION_TLS_CERTIFICATE and …_KEY"
        return f"no ytcaption server answers at {address} with TLS: {error.details()}{hint}"
    if not await _speaks_tls(address):
        return ""
    return f"the server at {address} speaks TLS: set YTCAPTION_TLS_CA to its authority's file"


async def _speaks_tls(address: str) -> bool:
    """Whether the server answers a TLS handshake; it is not verified, and is sent nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, writer = await asyncio.open_connection(*split(address), ssl=context)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


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
    if _is_unanswered(error):
        return CommandError(
            f"no ytcaption server answers at {address}; start one with `ytcaption up`",
            Exit.UNAVAILABLE,
            status.name,
        )
    message = for_terminal(error.details() or "the server gave no reason")
    return CommandError(message, code_of_status(status.name), reason or status.name)


def _is_unanswered(error: grpc.aio.AioRpcError) -> bool:
    return error.code() is grpc.StatusCode.UNAVAILABLE and not reason_of(error)


async def is_serving(address: str, tls: Tls = PLAIN) -> bool | None:
    """Returns the answer of the standard health check; None without an answer."""
    async with open_channel(address, tls) as channel:
        stub: Any = HealthStub(channel)  # its stubs are untyped
        try:
            answer = await stub.Check(HealthCheckRequest(), timeout=PROBE_SECONDS)
        except grpc.aio.AioRpcError:
            return None
    return bool(answer.status == HealthCheckResponse.SERVING)


async def answers_http(address: str, tls: Tls = PLAIN) -> bool:
    """Whether a gateway answers its liveness check, whatever the state of the mesh.

    With TLS the handshake is enough: the gateway may accept named callers only.
    """
    if tls.certificate:
        return await _speaks_tls(address)
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


async def model_preparation(
    address: str, tls: Tls = PLAIN, token: str = ""
) -> ModelPreparation | None:
    """How far a transcriber is with its model; None if it is ready or does not answer."""
    async with open_channel(address, tls) as channel:
        try:
            state = await TranscriberServiceStub(channel).GetModelState(
                GetModelStateRequest(), timeout=PROBE_SECONDS, metadata=metadata_of(token)
            )
        except grpc.aio.AioRpcError:
            return None
    return state.preparing if state.HasField("preparing") else None
