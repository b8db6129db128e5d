"""Observability of requests: correlation id, access log and Prometheus metrics."""

from time import perf_counter

from prometheus_client import Counter, Gauge, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog import get_logger
from structlog.contextvars import bound_contextvars

from mesh.correlation import KEY, new_id

log = get_logger(__name__)

MAX_ID = 128
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Counted by name; others together, since callers choose them."""
REQUESTS = Counter(
    "ytcaption_http_requests", "Finished requests, by status.", ["method", "route", "status"]
)
REQUESTS_OPEN = Gauge("ytcaption_http_requests_open", "Requests in flight.")
REQUEST_SECONDS = Histogram(
    "ytcaption_http_request_seconds",
    "Duration of requests.",
    ["route"],
    buckets=(0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800, 7200),
)
STREAMS_OPEN = Gauge("ytcaption_http_streams_open", "Open event streams.")


class ObservabilityMiddleware:
    """Outermost middleware: sees every request, also those other middleware reject."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the request under a correlation id; logs and counts its outcome."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        correlation_id = _valid_id(Headers(scope=scope).get(KEY, "")) or new_id()
        status = 0

        async def observed_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[KEY] = correlation_id
            await send(message)

        start = perf_counter()
        REQUESTS_OPEN.inc()
        with bound_contextvars(correlation_id=correlation_id):
            try:
                await self._app(scope, receive, observed_send)
            finally:
                seconds = perf_counter() - start
                route = _route(scope)
                REQUESTS_OPEN.dec()
                REQUESTS.labels(_method(scope), route, status or "none").inc()
                REQUEST_SECONDS.labels(route).observe(seconds)
                log.info(
                    "request",
                    method=scope["method"],
                    path=scope["path"],
                    status=status or None,
                    seconds=round(seconds, 4),
                )


def _valid_id(value: str) -> str:
    return value if len(value) <= MAX_ID and value.isascii() and value.isprintable() else ""


def _method(scope: Scope) -> str:
    return str(scope["method"]) if scope["method"] in METHODS else "other"


def _route(scope: Scope) -> str:
    """Returns the route template, not the requested path: label cardinality stays bounded."""
    return str(getattr(scope.get("route"), "path", "none"))
