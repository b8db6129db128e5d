"""Credentials of a request: its bearer token or its session cookie, passed on to the orchestrator.

The gateway does not judge them; the orchestrator does, on every call.
"""

import hmac
import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from typing import Literal
from urllib.parse import quote, unquote

from starlette.datastructures import Headers
from starlette.requests import Request, cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.http.limits import client_of
from gateway.http.problems import RefusedError, respond
from gateway.http.security import SAFE_METHODS
from mesh.bearer import present, token_of
from mesh.reasons import Reason

SAFE = re.compile(r"[A-Za-z0-9._~+/=-]{1,4096}")
"""What a bearer token may consist of (RFC 6750), and metadata can carry."""
Purpose = Literal["session", "login"]
SAME_SITE: dict[Purpose, Literal["lax", "strict"]] = {"session": "strict", "login": "lax"}
"""Other sites cannot send a session; the provider's answer to a login comes from its site."""
FORMS = ("/login", "/logout")
"""They change nothing but sessions. One of no session yet, and one with the proof in a field."""
CSRF_HEADER = "X-CSRF-Token"
PLACE = re.compile(r"#/[A-Za-z0-9._~/?&=%+-]{0,1000}")
"""A place within the page is a fragment, so it cannot lead to another site."""


class CredentialsMiddleware:
    """Makes every call of a request carry the token the client sent, if it sent one.

    A browser sends its session with any request to this gateway, so a session alone changes
    nothing: the page proves with each request that it could read an answer of ours.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, or refuses a token that cannot be one."""
        if scope["type"] == "http":
            # Another scheme is meant for a proxy in front of us.
            bearer = token_of(Headers(scope=scope).get("authorization", ""))
            session = "" if bearer else session_of(scope)
            if refusal := _refusal(scope, bearer, session):
                await respond(refusal)(scope, receive, send)
                return
            present(bearer or session, client_of(scope))
        await self._app(scope, receive, send)


def _refusal(scope: Scope, bearer: str, session: str) -> RefusedError | None:
    if bearer and not SAFE.fullmatch(bearer):
        return RefusedError(
            401, "the token is not valid", reason=Reason.TOKEN_INVALID, field="Authorization"
        )
    if not session or scope["method"] in SAFE_METHODS or scope["path"] in FORMS:
        return None
    return refuse_without_proof(session, Headers(scope=scope).get(CSRF_HEADER, ""), CSRF_HEADER)


def session_of(scope: Scope) -> str:
    """The session of the browser; "" without one."""
    # Unlike the standard library it reads on behind a cookie that is malformed, of another port.
    cookies = cookie_parser("; ".join(Headers(scope=scope).getlist("cookie")))
    session = cookies.get(cookie_name(scope), "")
    return session if SAFE.fullmatch(session) else ""


def csrf_token(session: str) -> str:
    """What a page sends with requests of this session; "" without one.

    It cannot be derived without the session, which no script can read, nor the other way round.
    """
    if not session:
        return ""
    return urlsafe_b64encode(hmac.digest(session.encode(), b"csrf", "sha256")).decode().rstrip("=")


def refuse_without_proof(session: str, proof: str, field: str) -> RefusedError | None:
    """A refusal unless the proof is that of the session."""
    if hmac.compare_digest(csrf_token(session).encode(), proof.encode()):
        return None
    return RefusedError(
        403,
        "a session changes something only with its proof, csrf_token of GET /session",
        reason=Reason.CSRF_TOKEN_INVALID,
        field=field,
    )


def cookie_name(scope: Scope, purpose: Purpose = "session") -> str:
    """A cookie's name: browsers share cookies between the ports of a host.

    The prefix makes browsers refuse the cookie without TLS, so plain HTTP has none.
    """
    port = Headers(scope=scope).get("host", "").rpartition("]")[2].partition(":")[2]
    name = f"ytcaption-{purpose}{f'-{port}' if port.isdecimal() else ''}"
    return f"__Host-{name}" if scope["scheme"] == "https" else name


def set_session(scope: Scope, response: Response, session: str, seconds: float) -> None:
    """Gives the browser a session; scripts cannot read it, and other sites cannot send it."""
    _set(scope, response, "session", session, seconds)


def forget_session(scope: Scope, response: Response) -> None:
    """Takes the session from the browser."""
    _set(scope, response, "session", "", 0)


@dataclass(frozen=True, slots=True)
class OpenLogin:
    """A login by the provider that this browser has begun."""

    secret: str
    """Binds the provider's answer to this browser."""
    place: str
    """Where in the page to go afterwards."""


def set_login(scope: Scope, response: Response, login: OpenLogin, seconds: float) -> None:
    """Lets the browser keep a login while it is at the provider."""
    value = f"{login.secret}.{quote(login.place, safe='')}"
    _set(scope, response, "login", value, seconds)


def login_of(request: Request) -> OpenLogin:
    """The login that this browser has begun; without a secret if there is none."""
    cookies = cookie_parser("; ".join(request.headers.getlist("cookie")))
    value = cookies.get(cookie_name(request.scope, "login"), "")
    secret, _, place = value.partition(".")
    return OpenLogin(secret, place_of(unquote(place)))


def forget_login(scope: Scope, response: Response) -> None:
    """Takes the begun login from the browser."""
    _set(scope, response, "login", "", 0)


def place_of(text: str) -> str:
    """A place within the page, as its router writes it; "" for anything else."""
    return text if PLACE.fullmatch(text) else ""


def _set(scope: Scope, response: Response, purpose: Purpose, value: str, seconds: float) -> None:
    response.set_cookie(
        cookie_name(scope, purpose),
        value,
        max_age=int(seconds),
        path="/",
        secure=scope["scheme"] == "https",
        httponly=True,
        samesite=SAME_SITE[purpose],
    )
