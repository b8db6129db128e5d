"""Logging in and out with a browser, and who the client is."""

from pathlib import Path
from urllib.parse import parse_qs

from fastapi import APIRouter, FastAPI
from google.protobuf.duration import to_timedelta
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import Route

from gateway.client import call
from gateway.deps import Dependencies, Deps
from gateway.http.credentials import forget_session, set_session
from gateway.http.limits import client_of
from gateway.http.problems import RefusedError, problem_responses
from gateway.schemas.mesh import Session
from mesh.bearer import present
from mesh.errors import UnauthenticatedError
from mesh.messages import enum_word
from mesh.reasons import Reason
from ytcaption.v1 import auth_service_pb2 as pb
from ytcaption.v1 import token_pb2

router = APIRouter(tags=["session"])

FORM = Path(__file__).parents[1] / "page" / "login.html"
MAX_TOKEN = 4096
OWN_SITES = ("none", "same-origin")


@router.get("/session", responses=problem_responses())
async def get_session(deps: Deps) -> Session:
    """Returns whom the token or the session of the client stands for, and its role."""
    found = await call(deps.orchestrator.auth.GetCaller, pb.GetCallerRequest())
    return Session(
        subject=found.subject, role=enum_word(token_pb2.Role, found.role), login=found.login
    )


def install(app: FastAPI) -> None:
    """Adds what only browsers use; it is not part of the OpenAPI description."""
    app.routes.extend(
        [
            Route("/login", _show, methods=["GET"]),
            Route("/login", _log_in, methods=["POST"]),
            Route("/logout", _log_out, methods=["POST"]),
        ]
    )


async def _show(request: Request) -> Response:
    """The form; or, with the code of a link, the page with a new session."""
    code = request.query_params.get("code", "")
    if not code:
        return FileResponse(FORM, media_type="text/html; charset=utf-8")
    if request.headers.get("sec-fetch-site", "none") not in OWN_SITES:
        raise RefusedError(403, "another site may not log you in")
    try:
        opened = await call(
            _deps(request).orchestrator.auth.OpenLink, pb.OpenLinkRequest(code=code)
        )
    except UnauthenticatedError:
        return _to("login?refused=link")
    return _with_session(request, opened)


async def _log_in(request: Request) -> Response:
    """A session for the token in the form."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_TOKEN:
            raise RefusedError(413, "the form is too large", reason=Reason.TOO_LARGE)
    token = parse_qs(body.decode("latin-1")).get("token", [""])[0].strip()
    if not token.isascii() or not token.isprintable():
        return _to("login?refused=token")
    present(token, client_of(request.scope))
    try:
        opened = await call(
            _deps(request).orchestrator.auth.CreateSession, pb.CreateSessionRequest()
        )
    except UnauthenticatedError:
        return _to("login?refused=token")
    return _with_session(request, opened)


async def _log_out(request: Request) -> Response:
    """Ends the session, or with `everywhere` in the query all sessions of its owner."""
    everywhere = "everywhere" in request.query_params
    response = _to("login")
    try:
        auth = _deps(request).orchestrator.auth
        await call(auth.EndSessions, pb.EndSessionsRequest(everywhere=everywhere))
    except UnauthenticatedError:  # it has ended already
        pass
    forget_session(request.scope, response)
    return response


def _with_session(
    request: Request, opened: pb.OpenLinkResponse | pb.CreateSessionResponse
) -> Response:
    response = _to(".")
    seconds = to_timedelta(opened.lifetime).total_seconds()
    set_session(request.scope, response, opened.session, seconds)
    return response


def _to(path: str) -> Response:
    # Relative: the page may be served under any path.
    return RedirectResponse(path, 303)


def _deps(request: Request) -> Dependencies:
    deps: Dependencies = request.app.state.deps
    return deps
