"""Runs a gRPC server the same way in production and in tests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    aclosing,
    asynccontextmanager,
    nullcontext,
)
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health
from grpc_health.v1.health_pb2 import HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server
from grpc_reflection.v1alpha import reflection

from mesh.correlation import correlated
from mesh.errors import UnavailableError, UnsupportedError
from mesh.grpc_tls import known_peers, server_credentials
from mesh.metrics import measured
from mesh.reasons import Reason
from mesh.requests import MAX_REQUEST_BYTES, RequestInterceptor, kind_of
from mesh.status import abort, errors_as_statuses
from mesh.tls import PLAIN, Tls

RECEIVED_BYTES = 16 * MAX_REQUEST_BYTES
"""Larger messages gRPC refuses itself, unread, with a status that names no reason."""
KEEPALIVE_MS = 20_000
MIN_PING_MS = 5_000
"""Clients that ping more often are cut off. Half of 10 s, the least Go and Java clients allow."""
ABORT_SECONDS = 1.0
"""For the statuses of calls that outlive the grace period."""
MAX_METHOD = 100

Guard = Callable[[Any, str], AbstractAsyncContextManager[None]]
"""Takes the servicer context and the method's full name."""

OPTIONS: tuple[tuple[str, int], ...] = (
    # Without this two servers may share one port and steal each other's calls.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", RECEIVED_BYTES),
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

    guard: Guard | None = None
    """Decides who may call; None: everyone who reaches the port."""

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
async def running_server(  # noqa: PLR0913 # what is served, and how
    services: Sequence[Service],
    listen: str = "127.0.0.1:0",
    *,
    grace_seconds: float = 10,
    serving: bool = True,
    tls: Tls = PLAIN,
    reflects: bool = True,
) -> AsyncIterator[RunningServer]:
    """Serves until the block ends; running calls get the grace period to finish."""
    calls = OpenCalls()
    known = [GuardInterceptor(known_peers(tls))] if tls.names else []
    server = grpc.aio.server(
        # The first one is outermost.
        interceptors=[
            _UnknownMethods(),
            GuardInterceptor(correlated),
            GuardInterceptor(measured),
            GuardInterceptor(errors_as_statuses, every=True),
            *known,
            GuardInterceptor(_guard_of(services)),
            GuardInterceptor(calls.tracked),
            RequestInterceptor(),
        ],
        options=OPTIONS,
    )
    for service in services:
        service.register(server)
    checks = health.aio.HealthServicer()
    add_HealthServicer_to_server(checks, server)
    names = [service.name for service in services]
    if reflects:
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
        stopped = asyncio.create_task(server.stop(grace_seconds + ABORT_SECONDS))
        await asyncio.wait({stopped}, timeout=grace_seconds)
        await calls.abort()
        await server.stop(0)  # what is left: health watches, which never end
        await stopped


def _guard_of(services: Sequence[Service]) -> Guard:
    """One guard for all services: each call meets that of its own service."""
    guards = {service.name: service.guard for service in services}

    @asynccontextmanager
    async def guard(context: Any, method: str) -> AsyncIterator[None]:
        own = guards.get(method[1:].rpartition("/")[0])
        async with own(context, method) if own else nullcontext():
            yield

    return guard


class OpenCalls:
    """The calls under way; those that outlive the grace period end with a reason, not a reset."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ending = False

    @asynccontextmanager
    async def tracked(self, context: Any, method: str) -> AsyncIterator[None]:
        """A guard: turns the cancellation by `abort` into an error for the caller."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 # a coroutine runs in one
        self._tasks.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if not self._ending:
                raise
            task.uncancel()
            raise UnavailableError(
                "the service is shutting down", reason=Reason.STAGE_UNAVAILABLE
            ) from None
        finally:
            self._tasks.discard(task)

    async def abort(self) -> None:
        """Ends every call, within about a second."""
        self._ending = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=ABORT_SECONDS)


class _UnknownMethods(grpc.aio.ServerInterceptor):
    """Refuses methods that no service has; they are not counted, since callers choose names."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        async def refuse(_: Any, context: Any) -> None:
            name = handler_call_details.method[:MAX_METHOD]
            await abort(
                context,
                UnsupportedError(f"there is no method {name}", reason=Reason.NOT_IMPLEMENTED),
            )

        found = await continuation(handler_call_details)
        return grpc.stream_unary_rpc_method_handler(refuse) if found is None else found


async def _write(context: Any, answer: Any) -> None:
    """Sends one answer; to a client that has gone, the call is cancelled."""
    try:
        await context.write(answer)
    except grpc.aio.InternalError:
        # The client left in the middle of a message. Otherwise gRPC cancels the call itself.
        raise asyncio.CancelledError from None


class GuardInterceptor(grpc.aio.ServerInterceptor):
    """Runs a context manager around our RPCs, unary or streaming, or around every RPC."""

    def __init__(self, guard: Guard, *, every: bool = False) -> None:
        self._guard = guard
        self._every = every

    async def intercept_service(  # noqa: D102
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        method = handler_call_details.method
        # Health and reflection are not ours.
        if handler is None or not (self._every or method.startswith("/ytcaption.")):
            return handler
        kind = kind_of(handler)
        behaviour = getattr(handler, kind)

        async def answer_once(request: Any, context: Any) -> Any:
            async with self._guard(context, method):
                return await behaviour(request, context)

        # A generator fails while it is iterated, not when it is called, so the
        # loop itself has to be inside the guard.
        # It writes instead of being a generator: one that the client leaves between two answers
        # would be closed later, by the event loop and in another context.
        async def answer_many(request: Any, context: Any) -> None:
            async with self._guard(context, method):
                answers = behaviour(request, context)
                if not hasattr(answers, "__aiter__"):  # a generated method that is not implemented,
                    await answers  # or the health watch, which writes by itself
                    return
                async with aclosing(answers):
                    async for answer in answers:
                        await _write(context, answer)

        return getattr(grpc, f"{kind}_rpc_method_handler")(
            answer_many if handler.response_streaming else answer_once,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )
