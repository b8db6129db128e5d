"""Runs a gRPC server the same way in production and in tests."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server
from grpc_reflection.v1alpha import reflection

from mesh.correlation import correlated
from mesh.errors import UnavailableError
from mesh.grpc_tls import known_peers, server_credentials
from mesh.metrics import measured
from mesh.reasons import Reason
from mesh.status import errors_as_statuses
from mesh.tls import PLAIN, Tls

MAX_REQUEST_BYTES = 1024 * 1024
KEEPALIVE_MS = 20_000
MIN_PING_MS = 5_000
"""Clients that ping more often are cut off. Half of 10 s, the least Go and Java clients allow."""

Guard = Callable[[Any, str], AbstractAsyncContextManager[None]]
"""Takes the servicer context and the method's full name."""

OPTIONS: tuple[tuple[str, int], ...] = (
    # Without this two servers may share one port and steal each other's calls.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", MIN_PING_MS),
    ("grpc.keepalive_permit_without_calls", 1),
)


@dataclass(frozen=True, slots=True)
class Service:
    """One gRPC service, ready to register with a server."""

    name: str
    """Full name, such as "ytcaption.v1.DownloaderService"."""

    register: Callable[[grpc.aio.Server], None]

    let_go: Callable[[], None] = lambda: None
    """Ends calls that never end by themselves; called when the server stops."""

    @classmethod
    def of(
        cls,
        descriptor: Any,
        add: Callable[[Any, grpc.aio.Server], None],
        servicer: Any,
        *,
        let_go: Callable[[], None] = lambda: None,
    ) -> "Service":
        """Takes `pb.DESCRIPTOR.services_by_name[…]`, the generated add-function and a servicer."""
        return cls(descriptor.full_name, lambda server: add(servicer, server), let_go)


class RunningServer:
    """A listening server; its health status is set separately."""

    def __init__(self, port: int, names: Sequence[str], checks: health.aio.HealthServicer) -> None:
        self.port = port
        self._names = names
        self._checks = checks

    async def set_serving(self, serving: bool) -> None:
        """Sets the health status of the server and all its services."""
        status = HealthCheckResponse.SERVING if serving else HealthCheckResponse.NOT_SERVING
        for name in ("", *self._names):
            await self._checks.set(name, status)


@asynccontextmanager
async def running_server(
    services: Sequence[Service],
    listen: str = "127.0.0.1:0",
    *,
    grace_seconds: float = 10,
    serving: bool = True,
    tls: Tls = PLAIN,
) -> AsyncIterator[RunningServer]:
    """Serves until the block ends; running calls get the grace period to finish."""
    known = (known_peers(tls),) if tls.names else ()
    server = grpc.aio.server(
        # The first one is outermost.
        interceptors=[*map(GuardInterceptor, (correlated, measured, errors_as_statuses, *known))],
        options=OPTIONS,
    )
    for service in services:
        service.register(server)
    checks = health.aio.HealthServicer()
    add_HealthServicer_to_server(checks, server)
    names = [service.name for service in services]
    reflection.enable_server_reflection(
        [*names, health.SERVICE_NAME, reflection.SERVICE_NAME], server
    )
    try:
        port = (
            server.add_secure_port(listen, server_credentials(tls))
            if tls.certificate
            else server.add_insecure_port(listen)
        )
    except RuntimeError as error:
        raise UnavailableError(
            f"cannot listen on {listen}: the port is in use or not permitted",
            reason=Reason.STAGE_UNAVAILABLE,
        ) from error
    running = RunningServer(port, names, checks)
    await running.set_serving(serving)
    await server.start()
    try:
        yield running
    finally:
        await checks.enter_graceful_shutdown()
        for service in services:
            service.let_go()
        await server.stop(grace_seconds)


class GuardInterceptor(grpc.aio.ServerInterceptor):
    """Runs a context manager around every one of our RPCs, unary or streaming."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def intercept_service(  # noqa: D102
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        # Health and reflection are not ours.
        if handler is None or not method.startswith("/ytcaption."):
            return handler
        kind = "_".join(
            "stream" if streaming else "unary"
            for streaming in (handler.request_streaming, handler.response_streaming)
        )
        behaviour = getattr(handler, kind)

        async def answer_once(request: Any, context: Any) -> Any:
            async with self._guard(context, method):
                return await behaviour(request, context)

        # A generator fails while it is iterated, not when it is called, so the
        # loop itself has to be inside the guard.
        async def answer_many(request: Any, context: Any) -> AsyncIterator[Any]:
            async with self._guard(context, method):
                answers = behaviour(request, context)
                if not hasattr(answers, "__aiter__"):  # a generated method that is not implemented
                    await answers
                    return
                async with aclosing(answers):
                    async for answer in answers:
                        yield answer

        return getattr(grpc, f"{kind}_rpc_method_handler")(
            answer_many if handler.response_streaming else answer_once,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )
