"""The lifecycle of a service process: start, become ready, serve, stop on a signal."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from pydantic import ValidationError
from structlog import get_logger

from mesh.errors import InvalidRequestError, MeshError
from mesh.logs import configure_logs
from mesh.metrics import serve_metrics
from mesh.reasons import Reason
from mesh.server import Service, running_server
from mesh.settings import ServiceSettings
from mesh.tokens import optional_token

log = get_logger(__name__)

EXIT_MISCONFIGURED = 78
EXIT_UNAVAILABLE = 69


async def serve(
    settings: ServiceSettings,
    services: Sequence[Service],
    get_ready: Callable[[], Awaitable[None]],
    *,
    reflects: bool = True,
) -> None:
    """Serves until SIGTERM or SIGINT; healthy once `get_ready` has returned."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    serve_metrics(
        settings.metrics_listen, settings.tls, optional_token(settings.metrics_token_file)
    )
    async with running_server(
        services,
        settings.listen,
        grace_seconds=settings.grace_seconds,
        serving=False,
        tls=settings.tls,
        reflects=reflects,
    ) as server:
        log.info("listening", port=server.port)
        stopped = asyncio.ensure_future(stopping.wait())
        preparing = asyncio.ensure_future(get_ready())
        await asyncio.wait({stopped, preparing}, return_when=asyncio.FIRST_COMPLETED)
        if preparing.done():
            preparing.result()
            await server.set_serving(True)
            log.info("ready")
            await stopped
        else:
            preparing.cancel()
        log.info("stopping")


def run_process(
    service: str,
    read: Callable[[], ServiceSettings],
    main: Callable[[Any], Coroutine[Any, Any, None]],
) -> None:
    """Reads the settings once and runs `main`; a known error prints one line, no traceback."""
    try:
        settings = read()
        settings.check()
    except (ValidationError, InvalidRequestError) as error:
        sys.exit(_report(service, str(error), EXIT_MISCONFIGURED))
    configure_logs(service, settings.log_level, settings.log_format)
    try:
        asyncio.run(main(settings))
    except MeshError as error:
        forbidden = error.reason == Reason.STORAGE_FORBIDDEN
        code = EXIT_MISCONFIGURED if forbidden else EXIT_UNAVAILABLE
        sys.exit(_report(service, f"{error} ({error.reason})", code))
    except OSError as error:
        sys.exit(_report(service, str(error), EXIT_UNAVAILABLE))


def _report(service: str, message: str, code: int) -> int:
    sys.stderr.write(f"{service}: {message}\n")
    return code
