"""Protects users of the web page: security headers, host name and origin checks."""

from ipaddress import ip_address
from socket import gethostname

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
    "Cross-Origin-Resource-Policy": "same-origin",
    # Jobs, transcripts and audio are private; static files say otherwise themselves.
    "Cache-Control": "private, no-store",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ANY = "*"
LIVENESS = "/live"
"""Says nothing but that we live, and probes call it by whatever address they have."""


class SecurityMiddleware:
    """Rejects cross-site requests and DNS rebinding, and adds security headers to responses.

    A browser sends the cookie of its session, or needs none where there is no login. A page of
    another site that is open in the same browser must not use that, neither by sending a form
    (CSRF) nor under a host name that it points at this gateway (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._hosts = frozenset(name.lower() for name in comma_separated(settings.hosts))
        self._allows_addresses = False
        if not self._hosts:
            self._hosts = LOOPBACK
            if split(settings.listen)[0] not in LOOPBACK:
                # An address cannot be rebound; only names can.
                self._hosts, self._allows_addresses = LOOPBACK | {gethostname().lower()}, True
        self._origins = frozenset(comma_separated(settings.cors_origins))

    def _is_allowed(self, host: str) -> bool:
        named = host in self._hosts or ANY in self._hosts
        return named or (self._allows_addresses and _is_address(host))

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

        refusal = self._refusal(scope, Headers(scope=scope))
        if refusal is not None:
            await respond(refusal)(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> RefusedError | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            return RefusedError(400, "a request must name one host", field="Host")
        host = hosts[0]
        if scope["path"] != LIVENESS and not self._is_allowed(_without_port(host)):
            return RefusedError(
                403, f"host {host[:100]!r} is not allowed; see GATEWAY_HOSTS", field="Host"
            )
        if scope["method"] in SAFE_METHODS:
            return None
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if origin == "null" and site == "same-origin":
            # A form of ours: our pages send no referrer. No script can set the second header.
            cross_site = False
        elif origin is not None:
            own = f"{scope['scheme']}://{host}"
            cross_site = origin != own and origin not in self._origins
        else:
            cross_site = site not in ("none", "same-origin")
        if cross_site:
            return RefusedError(
                403, "cross-site requests may not change anything; see GATEWAY_CORS_ORIGINS"
            )
        return None


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
