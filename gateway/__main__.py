"""Runs the gateway: `python -m gateway`."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil

import uvicorn
from fastapi import FastAPI
from structlog import get_logger

from gateway.app import create_app
from gateway.settings import Settings, listed
from mesh.addresses import split
from mesh.errors import UnavailableError
from mesh.metrics import serve_metrics
from mesh.reasons import Reason
from mesh.service import run_process

log = get_logger(__name__)

BACKLOG = 2048


class _Server(uvicorn.Server):
    """Stops when we say so: event streams have to be told first."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours."""
        yield


async def main(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT."""
    with _listening(settings.listen) as listener:
        serve_metrics(settings.metrics_listen)
        app = create_app(settings)
        server = _Server(_configuration(app, settings))
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _stop, app, server)
        log.info("listening", port=listener.getsockname()[1])
        await server.serve(sockets=[listener])
        log.info("stopped")


def _stop(app: FastAPI, server: uvicorn.Server) -> None:
    if hasattr(app.state, "face"):
        app.state.face.stop()
    server.should_exit = True


def _configuration(app: FastAPI, settings: Settings) -> uvicorn.Config:
    proxies = listed(settings.trusted_proxies)
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        timeout_graceful_shutdown=ceil(settings.grace_seconds),
    )


@contextmanager
def _listening(listen: str) -> Iterator[socket.socket]:
    """Bound before anything else starts: a taken port is one line, not a traceback."""
    host, port = split(listen)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(BACKLOG)
        except OSError as error:
            raise UnavailableError(
                f"cannot listen on {listen}: the port is taken or not ours",
                reason=Reason.STAGE_UNAVAILABLE,
            ) from error
        listener.setblocking(False)
        yield listener


if __name__ == "__main__":
    run_process("gateway", Settings, main)
