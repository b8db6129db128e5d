"""Credentials of a request: its bearer token or its session cookie, passed on to the orchestrator.

The gateway does not judge them; the orchestrator does, on every call.
"""

import re

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.http.limits import client_of
from gateway.http.problems import RefusedError, respond
from mesh.bearer import present, token_of
from mesh.reasons import Reason

SAFE = re.compile(r"[A-Za-z0-9._~+/=-]{1,4096}")
"""What a bearer token may consist of (RFC 6750), and metadata can carry."""


class CredentialsMiddleware:
    """Makes every call of a request carry the token the client sent, if it sent one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or refuses a token that cannot be one."""
        if scope["type"] == "http":
            token = _credential(scope)
            if token and not SAFE.fullmatch(token):
                refusal = RefusedError(
                    401,
                    "the token is not valid",
                    reason=Reason.TOKEN_INVALID,
                    field="Authorization",
                )
                await respond(refusal)(scope, receive, send)
                return
            present(token, client_of(scope))
        await self._app(scope, receive, send)


def _credential(scope: Scope) -> str:
    """The bearer token, which takes precedence, or the session; "" without either."""
    headers = Headers(scope=scope)
    # Another scheme is meant for a proxy in front of us.
    if token := token_of(headers.get("authorization", "")):
        return token
    # Unlike the standard library it reads on behind a cookie that is malformed, of another port.
    session = cookie_parser("; ".join(headers.getlist("cookie"))).get(cookie_name(scope), "")
    return session if SAFE.fullmatch(session) else ""


def cookie_name(scope: Scope) -> str:
    """The session cookie's name: browsers share cookies between the ports of a host.

    The prefix makes browsers refuse the cookie without TLS, so plain HTTP has none.
    """
    port = Headers(scope=scope).get("host", "").rpartition("]")[2].partition(":")[2]
    name = f"ytcaption-session{f'-{port}' if port.isdecimal() else ''}"
    return f"__Host-{name}" if scope["scheme"] == "https" else name


def set_session(scope: Scope, response: Response, session: str, seconds: float) -> None:
    """Gives the browser a session; scripts cannot read it, and other sites cannot send it."""
    response.set_cookie(
        cookie_name(scope),
        session,
        max_age=int(seconds),
        path="/",
        secure=scope["scheme"] == "https",
        httponly=True,
        samesite="strict",
    )


def forget_session(scope: Scope, response: Response) -> None:
    """Takes the session from the browser."""
    response.delete_cookie(
        cookie_name(scope),
        path="/",
        secure=scope["scheme"] == "https",
        httponly=True,
        samesite="strict",
    )
