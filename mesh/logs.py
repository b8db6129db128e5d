"""Structured log lines on stderr, with the correlation id of the call they belong to."""

import logging
import sys
from collections import OrderedDict
from functools import partial
from time import monotonic

import structlog

from mesh.settings import LogFormat

LINES_PER_SECOND = 100.0
BURST_LINES = 1000.0
"""Of lines of one kind: the same event of the same logger. More of them are counted."""
TRACEBACK_LINES = 20
"""What a line with a traceback counts."""
MAX_KINDS = 1000


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
    handler.addFilter(RateLimit())
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


class RateLimit(logging.Filter):
    """Drops lines of a kind that comes too often, and says how many: no caller fills the disk."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: OrderedDict[tuple[str, str], tuple[float, float, int]] = OrderedDict()
        """Of each kind: the lines it may still write, as of when, and how many were dropped."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        message: object = record.msg
        event = message.get("event") if isinstance(message, dict) else message
        kind, now = (record.name, str(event)), monotonic()
        left, seen, dropped = self._kinds.get(kind, (BURST_LINES, now, 0))
        left = min(BURST_LINES, left + (now - seen) * LINES_PER_SECOND)
        written = left >= 1
        if written and dropped:
            self._mark(record, dropped)
        left -= (TRACEBACK_LINES if record.exc_info else 1) if written else 0
        self._kinds[kind] = left, now, 0 if written else dropped + 1
        self._kinds.move_to_end(kind)
        if len(self._kinds) > MAX_KINDS:
            self._kinds.popitem(last=False)
        return written

    def _mark(self, record: logging.LogRecord, dropped: int) -> None:
        if isinstance(record.msg, dict):
            record.msg = {**record.msg, "dropped_lines": dropped}
        else:
            record.dropped_lines = dropped


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
