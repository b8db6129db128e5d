"""What protects people who have the page open: headers, host names, origins."""

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.problems import RefusedError, respond
from gateway.settings import Settings, listed
from mesh.addresses import split

PLAYERS = "https://www.youtube-nocookie.com https://player.vimeo.com"
POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        # Icons drawn in style sheets.
        "img-src 'self' data:",
        "media-src 'self' blob:",
        f"frame-src {PLAYERS}",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Guard:
    """Refuses what a foreign web page makes a browser send, and hardens every answer.

    There is no login: whoever reaches the port may use it. But a page of somebody else, open in
    the same browser, must not, neither by a form of its own nor under a name it points at us.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._hosts = _allowed_hosts(settings)
        self._origins = frozenset(listed(settings.cors_origins))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets through, hardened, or refuses."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def hardened(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope["method"], Headers(scope=scope))
        if refusal is not None:
            await respond(refusal)(scope, receive, hardened)
        else:
            await self._app(scope, receive, hardened)

    def _refusal(self, method: str, headers: Headers) -> RefusedError | None:
        host = headers.get("host", "")
        if self._hosts is not None and _name(host) not in self._hosts:
            return RefusedError(
                403, f"we are not known as {host[:100]!r} here; see GATEWAY_HOSTS", field="Host"
            )
        if method in SAFE:
            return None
        origin = headers.get("origin")
        if origin is not None:
            foreign = urlsplit(origin).netloc != host and origin not in self._origins
        else:
            foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if foreign:
            return RefusedError(
                403, "a page of another site may not do this; see GATEWAY_CORS_ORIGINS"
            )
        return None


def _allowed_hosts(settings: Settings) -> frozenset[str] | None:
    """None if any name will do."""
    if settings.hosts:
        return frozenset(name.lower() for name in listed(settings.hosts))
    host, _ = split(settings.listen)
    return LOOPBACK if host in LOOPBACK else None


def _name(host: str) -> str:
    """The host without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
