"""How much one client may ask for: requests a second, and bytes of a body."""

import asyncio
from collections import OrderedDict
from ipaddress import IPv6Address, ip_address

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.problems import RefusedError, respond
from gateway.settings import Settings
from mesh.reasons import Reason

MAX_CLIENTS = 10_000
UPLOADS = "/uploads"
UNCOUNTED = frozenset({"/live", "/health", "/metrics"})
"""Asked by machines that watch us."""


class Buckets:
    """A token bucket for each client address; the one unheard of for longest is forgotten."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, now: float) -> float:
        """0 if the client may go on, else the seconds it has to wait."""
        tokens, seen = self._clients.get(client, (float(self._burst), now))
        tokens = min(self._burst, tokens + (now - seen) * self._rate)
        wait = 0.0 if tokens >= 1 else (1 - tokens) / self._rate
        self._clients[client] = (tokens if wait else tokens - 1), now
        self._clients.move_to_end(client)
        if len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)
        return wait


def client_of(scope: Scope) -> str:
    """Who asks: an address, or the network an IPv6 address was given out with."""
    address = (scope.get("client") or ("",))[0]
    try:
        parsed = ip_address(address)
    except ValueError:
        return str(address)
    if isinstance(parsed, IPv6Address):
        return str(parsed.ipv4_mapped or int(parsed) >> 64)
    return str(parsed)


class Limits:
    """Refuses the request that is one too many, and the byte that is."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        rate = settings.rate_per_second
        self._buckets = Buckets(rate, settings.rate_burst) if rate else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets through or refuses."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._too_often(scope) or self._too_much(scope)
        if refusal is not None:
            await respond(refusal)(scope, receive, send)
        else:
            await self._app(scope, _Counted(receive, self._allowed(scope)).receive, send)

    def _too_often(self, scope: Scope) -> RefusedError | None:
        if self._buckets is None or scope["path"] in UNCOUNTED:
            return None
        wait = self._buckets.take(client_of(scope), asyncio.get_running_loop().time())
        if not wait:
            return None
        return RefusedError(
            429, "too many requests", reason=Reason.RATE_LIMITED, retry_after_seconds=wait
        )

    def _allowed(self, scope: Scope) -> int:
        uploads = scope["path"] == UPLOADS
        return self._settings.max_upload_bytes if uploads else self._settings.max_body_bytes

    def _too_much(self, scope: Scope) -> RefusedError | None:
        announced = Headers(scope=scope).get("content-length", "")
        allowed = self._allowed(scope)
        if announced.isdecimal() and int(announced) > allowed:
            return RefusedError(413, _too_large(allowed), reason=Reason.TOO_LARGE)
        return None


class _Counted:
    """A body that was not announced is counted as it comes."""

    def __init__(self, receive: Receive, allowed: int) -> None:
        self._receive = receive
        self._allowed = allowed
        self._seen = 0

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._seen += len(message.get("body", b""))
            if self._seen > self._allowed:
                # FastAPI lets this one through from the depths of its parsing.
                raise HTTPException(413, _too_large(self._allowed))
        return message


def _too_large(allowed: int) -> str:
    return f"the body is over the {allowed} bytes allowed"
