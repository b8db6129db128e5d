"""Structured log lines on stderr, with the correlation id of the call they belong to."""

import logging
import sys
from functools import partial

import structlog

from mesh.settings import LogFormat


def configure_logs(service: str, level: str, log_format: LogFormat) -> None:
    """Sends the lines of structlog and of the standard library to the same handler."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        partial(_add_service, service),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_rendering(log_format),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    # Their INFO lines repeat our own.
    for chatty in ("nats", "faster_whisper", "httpx", "asyncio", "uvicorn"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def _add_service(
    service: str, _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    return {**event, "service": service}


def _rendering(log_format: LogFormat) -> list[structlog.typing.Processor]:
    match log_format:
        case "console":
            return [
                structlog.dev.ConsoleRenderer(
                    colors=sys.stderr.isatty(),
                    exception_formatter=structlog.dev.plain_traceback,
                )
            ]
        case "ecs":
            from ecs_logging import StructlogFormatter  # the `elk` extra

            return [StructlogFormatter()]
        case "json":
            return [
                structlog.processors.ExceptionRenderer(
                    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
                ),
                structlog.processors.JSONRenderer(ensure_ascii=False),
            ]
