"""Every request: its correlation id, its line in the log, its figures for Prometheus."""

from time import perf_counter

from prometheus_client import Counter, Gauge, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog import get_logger
from structlog.contextvars import bound_contextvars

from mesh.correlation import KEY, new_id

log = get_logger(__name__)

MAX_ID = 128
REQUESTS = Counter(
    "ytcaption_http_requests", "Requests that ended, by status.", ["method", "route", "status"]
)
REQUESTS_OPEN = Gauge("ytcaption_http_requests_open", "Requests under way.")
REQUEST_SECONDS = Histogram(
    "ytcaption_http_request_seconds",
    "How long requests took.",
    ["route"],
    buckets=(0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800, 7200),
)
STREAMS_OPEN = Gauge("ytcaption_http_streams_open", "Event streams under way.")


class Watch:
    """The outermost layer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the request under a correlation id and takes note of how it ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        correlation_id = _acceptable(Headers(scope=scope).get(KEY, "")) or new_id()
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[KEY] = correlation_id
            await send(message)

        began = perf_counter()
        REQUESTS_OPEN.inc()
        with bound_contextvars(correlation_id=correlation_id):
            try:
                await self._app(scope, receive, noted)
            finally:
                took = perf_counter() - began
                route = _route(scope)
                REQUESTS_OPEN.dec()
                REQUESTS.labels(scope["method"], route, status or "none").inc()
                REQUEST_SECONDS.labels(route).observe(took)
                log.info(
                    "request",
                    method=scope["method"],
                    path=scope["path"],
                    status=status or None,
                    seconds=round(took, 4),
                )


def _acceptable(given: str) -> str:
    return given if len(given) <= MAX_ID and given.isascii() and given.isprintable() else ""


def _route(scope: Scope) -> str:
    """The route's own path, not the caller's: figures must not grow with what strangers ask."""
    return str(getattr(scope.get("route"), "path", "none"))
