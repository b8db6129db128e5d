"""Protects users of the web page: security headers, host name and origin checks."""

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.problems import RefusedError, respond
from gateway.settings import Settings, comma_separated
from mesh.addresses import split

PLAYER_ORIGINS = "https://www.youtube-nocookie.com https://player.vimeo.com"
POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        # Icons are data: URLs in style sheets.
        "img-src 'self' data:",
        "media-src 'self' blob:",
        f"frame-src {PLAYER_ORIGINS}",
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
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class SecurityMiddleware:
    """Rejects cross-site requests and DNS rebinding, and adds security headers to responses.

    There is no login: any client that reaches the port may use it. A page of another site that is
    open in the same browser must not, neither by sending a form (CSRF) nor under a host name that
    it points at this gateway (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._hosts = _allowed_hosts(settings)
        self._origins = frozenset(comma_separated(settings.cors_origins))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or responds with a problem; adds headers in both cases."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope["method"], Headers(scope=scope))
        if refusal is not None:
            await respond(refusal)(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _refusal(self, method: str, headers: Headers) -> RefusedError | None:
        host = headers.get("host", "")
        if self._hosts is not None and _without_port(host) not in self._hosts:
            return RefusedError(
                403, f"host {host[:100]!r} is not allowed; see GATEWAY_HOSTS", field="Host"
            )
        if method in SAFE_METHODS:
            return None
        origin = headers.get("origin")
        if origin is not None:
            cross_site = urlsplit(origin).netloc != host and origin not in self._origins
        else:
            cross_site = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if cross_site:
            return RefusedError(
                403, "cross-site requests may not change anything; see GATEWAY_CORS_ORIGINS"
            )
        return None


def _allowed_hosts(settings: Settings) -> frozenset[str] | None:
    """Returns None if any host name is allowed."""
    if settings.hosts:
        return frozenset(name.lower() for name in comma_separated(settings.hosts))
    host, _ = split(settings.listen)
    return LOOPBACK if host in LOOPBACK else None


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
