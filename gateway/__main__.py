"""Runs the gateway: `python -m gateway`."""

import asyncio
import gc
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil

import uvicorn
from fastapi import FastAPI
from structlog import get_logger

from gateway.app import create_app
from gateway.http.protocol import BACKLOG, bounded_protocol, raise_file_limit
from gateway.settings import Settings, comma_separated
from mesh.addresses import split
from mesh.errors import UnavailableError
from mesh.metrics import serve_metrics
from mesh.reasons import Reason
from mesh.service import run_process
from mesh.tls import ReloadingContext
from mesh.tokens import optional_token

log = get_logger(__name__)


class _Server(uvicorn.Server):
    """Leaves signals to `main`: event streams must be stopped before the server."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Installs no handlers."""
        yield


async def main(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT."""
    with _bound_socket(settings.listen) as listener:
        token = optional_token(settings.metrics_token_file)
        serve_metrics(settings.metrics_listen, settings.tls, token)
        app = create_app(settings)
        server = _Server(server_config(app, settings))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _stop, app, server)
        log.info("listening", port=listener.getsockname()[1])
        await server.serve(sockets=[listener])
        log.info("stopped")


def _stop(app: FastAPI, server: uvicorn.Server) -> None:
    if hasattr(app.state, "deps"):  # set once the application has started
        app.state.deps.streams.stop()
    server.should_exit = True


def server_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """How the application is served, also in tests."""
    proxies = comma_separated(settings.trusted_proxies)
    return uvicorn.Config(
        app,
        http=bounded_protocol(settings, raise_file_limit()),
        ws="none",
        loop="asyncio",
        lifespan="on",
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        timeout_graceful_shutdown=ceil(settings.grace_seconds),
        ssl_context_factory=(
            (lambda *_: ReloadingContext.for_server(settings.tls))
            if settings.tls.certificate
            else None
        ),
    )


@contextmanager
def _bound_socket(listen: str) -> Iterator[socket.socket]:
    """Binds before anything else starts: a taken port is one log line, not a traceback."""
    host, port = split(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is named; without it the body of each
    # response waits some 40 ms for the client's delayed acknowledgement of the headers.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(BACKLOG)
        except OSError as error:
            raise UnavailableError(
                f"cannot listen on {listen}: the port is in use or not permitted",
                reason=Reason.STAGE_UNAVAILABLE,
            ) from error
        listener.setblocking(False)
        yield listener


if __name__ == "__main__":
    # A thousand streams are many live objects: collecting all of them stopped every stream for up
    # to 0.3 s. Closed streams leave cycles, so it must happen, but once in thousands of them.
    gc.set_threshold(10_000, 20, 5)
    run_process("gateway", Settings, main)
