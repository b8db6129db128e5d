"""Limits of one client: requests per second (token bucket) and bytes of a request body."""

import asyncio
from collections import OrderedDict
from ipaddress import IPv6Address, ip_address

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.problems import RefusedError, respond
from gateway.settings import Settings
from mesh.reasons import Reason

MAX_CLIENTS = 10_000
UPLOADS_PATH = "/uploads"
EXEMPT_PATHS = frozenset({"/live", "/health", "/metrics"})
"""Probes and scrapes are not rate limited."""


class TokenBuckets:
    """One token bucket per client; the least recently seen client is evicted."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, now: float) -> float:
        """Takes one token; returns 0, or the seconds until there is one."""
        tokens, seen = self._clients.get(client, (float(self._burst), now))
        tokens = min(self._burst, tokens + (now - seen) * self._rate)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self._rate
        self._clients[client] = (tokens if wait else tokens - 1), now
        self._clients.move_to_end(client)
        if len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)
        return wait


def client_of(scope: Scope) -> str:
    """Returns the client's IPv4 address, or its IPv6 /64 network."""
    address = (scope.get("client") or ("",))[0]
    try:
        parsed = ip_address(address)
    except ValueError:
        return str(address)
    if isinstance(parsed, IPv6Address):
        return str(parsed.ipv4_mapped or int(parsed) >> 64)
    return str(parsed)


class LimitsMiddleware:
    """Rejects requests over the rate limit (429) and bodies over the size limit (413)."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        rate = settings.rate_per_second
        self._buckets = TokenBuckets(rate, settings.rate_burst) if rate else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or responds with a problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._check_rate(scope) or self._check_content_length(scope)
        if refusal is not None:
            await respond(refusal)(scope, receive, send)
        else:
            await self._app(scope, _counted(receive, self._max_bytes(scope)), send)

    def _check_rate(self, scope: Scope) -> RefusedError | None:
        if self._buckets is None or scope["path"] in EXEMPT_PATHS:
            return None
        wait = self._buckets.take(client_of(scope), asyncio.get_running_loop().time())
        if not wait:
            return None
        return RefusedError(
            429, "too many requests", reason=Reason.RATE_LIMITED, retry_after_seconds=wait
        )

    def _max_bytes(self, scope: Scope) -> int:
        is_upload = scope["path"] == UPLOADS_PATH
        return self._settings.max_upload_bytes if is_upload else self._settings.max_body_bytes

    def _check_content_length(self, scope: Scope) -> RefusedError | None:
        content_length = Headers(scope=scope).get("content-length", "")
        max_bytes = self._max_bytes(scope)
        if content_length.isdecimal() and int(content_length) > max_bytes:
            return RefusedError(413, _too_large(max_bytes), reason=Reason.TOO_LARGE)
        return None


def _counted(receive: Receive, max_bytes: int) -> Receive:
    """Counts the bytes of a body as they arrive, for bodies without a Content-Length."""
    received = 0

    async def counted_receive() -> Message:
        nonlocal received
        message = await receive()
        if message["type"] == "http.request":
            received += len(message.get("body", b""))
            if received > max_bytes:
                # The one exception type FastAPI does not wrap while it parses the body.
                raise HTTPException(413, _too_large(max_bytes))
        return message

    return counted_receive


def _too_large(max_bytes: int) -> str:
    return f"the body is over the {max_bytes} bytes allowed"
