"""Prometheus metrics of every RPC, served on a separate port."""

import socket
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from socketserver import ThreadingMixIn
from threading import Thread
from time import perf_counter
from typing import Any, TypeAlias
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import grpc
from prometheus_client import Counter, Gauge, Histogram, make_wsgi_app

from mesh.addresses import split
from mesh.bearer import token_of
from mesh.tls import PLAIN, ReloadingContext, Tls
from mesh.tokens import digest_of, matches

RPCS = Counter("ytcaption_rpcs", "Calls that ended, by status code.", ["method", "code"])
RPCS_OPEN = Gauge("ytcaption_rpcs_open", "Calls under way.", ["method"])
RPC_SECONDS = Histogram(
    "ytcaption_rpc_seconds",
    "How long calls took.",
    ["method"],
    buckets=(0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800, 7200),
)

REQUEST_SECONDS = 30.0

_App: TypeAlias = Callable[[dict[str, Any], Any], Iterable[bytes]]


@asynccontextmanager
async def measured(context: Any, method: str) -> AsyncIterator[None]:
    """Counts and times the call."""
    began = perf_counter()
    RPCS_OPEN.labels(method).inc()
    code = "OK"
    try:
        yield
    except grpc.aio.AbortError:
        code = _name(context.code())
        raise
    except BaseException:  # a cancelled call, or a generator closed early
        code = grpc.StatusCode.CANCELLED.name
        raise
    finally:
        RPCS_OPEN.labels(method).dec()
        RPCS.labels(method, code).inc()
        RPC_SECONDS.labels(method).observe(perf_counter() - began)


def _name(code: Any) -> str:
    """Name of a status code, which grpc.aio returns as a number."""
    by_number = {status.value[0]: status.name for status in grpc.StatusCode}
    return code.name if isinstance(code, grpc.StatusCode) else by_number.get(code, "UNKNOWN")


def serve_metrics(listen: str, tls: Tls = PLAIN, token: str = "") -> int:
    """Serves the Prometheus endpoint from a thread; returns its port. "" turns it off.

    A service that names its callers demands a certificate here too, with whatever name. With a
    token it answers only those who send it as a bearer token.
    """
    if not listen:
        return 0
    context = ReloadingContext.for_server(tls, any_name=True) if tls.certificate else None
    app = make_wsgi_app()
    server = _MetricsServer(*split(listen), context, _with_token(token, app) if token else app)
    Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def _with_token(token: str, app: _App) -> _App:
    """The application for those who send the token; 401 for others."""
    digest = digest_of(token)

    def answer(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        given = token_of(environ.get("HTTP_AUTHORIZATION", ""))
        if matches(given, digest):
            return app(environ, start_response)
        start_response(
            "401 Unauthorized",
            [("WWW-Authenticate", "Bearer"), ("Content-Type", "text/plain; charset=utf-8")],
        )
        return [b"the metrics need a bearer token\n"]

    return answer


class _SilentHandler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing."""


class _MetricsServer(ThreadingMixIn, WSGIServer):
    """One thread for each request, handshake included: a caller that is silent delays no other."""

    daemon_threads = True

    def __init__(self, host: str, port: int, context: ReloadingContext | None, app: _App) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._context = context
        super().__init__((host, port), _SilentHandler)
        self.set_app(app)

    def finish_request(self, request: Any, client_address: Any) -> None:
        request.settimeout(REQUEST_SECONDS)
        if self._context is None:
            super().finish_request(request, client_address)
            return
        with self._context.wrap_socket(request, server_side=True) as encrypted:
            super().finish_request(encrypted, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that leaves, or does not speak TLS, is no error of ours."""
