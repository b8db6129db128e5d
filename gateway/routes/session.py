"""Logging in and out with a browser, who the client is, and what it may use."""

from functools import cache
from html import escape
from pathlib import Path
from urllib.parse import parse_qs, urlencode

from fastapi import APIRouter, FastAPI
from google.protobuf.duration import to_timedelta
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from gateway.client import call
from gateway.deps import Dependencies, Deps
from gateway.http.credentials import (
    OpenLogin,
    csrf_token,
    forget_login,
    forget_session,
    login_of,
    place_of,
    refuse_without_proof,
    session_of,
    set_login,
    set_session,
)
from gateway.http.limits import client_of
from gateway.http.problems import RefusedError, problem_responses
from gateway.schemas.mesh import Quota, Quotas, Session
from mesh.bearer import present
from mesh.errors import MeshError, UnauthenticatedError
from mesh.messages import enum_word
from mesh.reasons import Reason
from ytcaption.v1 import auth_service_pb2 as pb
from ytcaption.v1 import quota_pb2, token_pb2
from ytcaption.v1 import quota_service_pb2 as quota_api

router = APIRouter(tags=["session"])

PAGE = Path(__file__).parents[1] / "page"
PROVIDER = "<!-- provider -->"
"""Where in the form the way to the provider goes."""
PROVIDER_LINK = '<a id="provider" class="button" href="login/oidc" data-name="{0}">{0}</a>'
MAX_FORM = 4096
OWN_SITES = ("none", "same-origin")


@router.get("/session", responses=problem_responses())
async def get_session(request: Request, deps: Deps) -> Session:
    """Returns the subject of the client's token or session, and its role."""
    found = await call(deps.orchestrator.auth.GetCaller, pb.GetCallerRequest())
    return Session(
        subject=found.subject,
        role=enum_word(token_pb2.Role, found.role),
        login=found.login,
        groups=list(found.groups),
        csrf_token=csrf_token(session_of(request.scope)),
    )


@router.get("/quota", responses=problem_responses())
async def get_quota(deps: Deps) -> Quotas:
    """Returns the limits of the client's owner, and what is used of them."""
    found = await call(deps.orchestrator.quotas.GetQuota, quota_api.GetQuotaRequest())
    return Quotas(
        owner=found.owner,
        quotas=[
            Quota(
                limit=enum_word(quota_pb2.QuotaLimit, one.limit),
                maximum=one.maximum or None,
                used=one.used,
                overridden=one.overridden,
            )
            for one in found.quotas
        ],
    )


def install(app: FastAPI) -> None:
    """Adds what only browsers use; it is not part of the OpenAPI description."""
    app.routes.extend(
        [
            Route("/login", _show, methods=["GET"]),
            Route("/login", _log_in, methods=["POST"]),
            Route("/login/oidc", _begin, methods=["GET"]),
            Route("/login/callback", _complete, methods=["GET"]),
            Route("/logout", _log_out, methods=["POST"]),
        ]
    )


async def _show(request: Request) -> Response:
    """The form; or, with the code of a link, the page with a new session."""
    code = request.query_params.get("code", "")
    if not code:
        return HTMLResponse(_text("login.html").replace(PROVIDER, await _provider_link(request)))
    _refuse_other_sites(request)
    try:
        opened = await call(
            _deps(request).orchestrator.auth.OpenLink, pb.OpenLinkRequest(code=code)
        )
    except UnauthenticatedError:
        return _refused("link")
    return _with_session(request, _to("."), opened)


async def _provider_link(request: Request) -> str:
    auth = _deps(request).orchestrator.auth
    try:
        methods = await call(auth.GetLoginMethods, pb.GetLoginMethodsRequest())
    except MeshError:  # the form says so once it is sent
        return ""
    return PROVIDER_LINK.format(escape(methods.provider)) if methods.provider else ""


async def _log_in(request: Request) -> Response:
    """A session for the token in the form."""
    form = await _form(request)
    token, place = form.get("token", [""])[0].strip(), place_of(form.get("next", [""])[0])
    if not token.isascii() or not token.isprintable():
        return _refused("token", place)
    present(token, client_of(request.scope))
    try:
        opened = await call(
            _deps(request).orchestrator.auth.CreateSession, pb.CreateSessionRequest()
        )
    except UnauthenticatedError:
        return _refused("token", place)
    return _with_session(request, _to(f".{place}"), opened)


async def _form(request: Request) -> dict[str, list[str]]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM:
            raise RefusedError(413, "the form is too large", reason=Reason.TOO_LARGE)
    return parse_qs(body.decode("latin-1"))


async def _begin(request: Request) -> Response:
    """Sends the browser to the provider, with a login of its own to come back with."""
    _refuse_other_sites(request)
    place = place_of(request.query_params.get("next", ""))
    try:
        begun = await call(_deps(request).orchestrator.auth.BeginLogin, pb.BeginLoginRequest())
    except MeshError as error:
        return _refused(error.reason, place, "../")
    response = RedirectResponse(begun.authorization_url, 303)
    seconds = to_timedelta(begun.lifetime).total_seconds()
    set_login(request.scope, response, OpenLogin(begun.secret, place), seconds)
    return response


async def _complete(request: Request) -> Response:
    """A session for the person the provider names; the orchestrator decides whether it does."""
    login, given = login_of(request), request.query_params
    answer = pb.CompleteLoginRequest(
        secret=login.secret,
        state=given.get("state", ""),
        code=given.get("code", ""),
        issuer=given.get("iss", ""),
        error=given.get("error", ""),
    )
    try:
        opened = await call(_deps(request).orchestrator.auth.CompleteLogin, answer)
    except MeshError as error:
        response = _refused(error.reason, login.place, "../")
    else:
        # No redirect: the browser came from another site, and would not send the new cookie along.
        response = _with_session(request, _hop(f"../{login.place}"), opened)
    forget_login(request.scope, response)
    return response


async def _log_out(request: Request) -> Response:
    """Ends the session, or with `everywhere` in the query all sessions of its owner."""
    everywhere, session = "everywhere" in request.query_params, session_of(request.scope)
    proof = (await _form(request)).get("csrf_token", [""])[0]
    if session and (refusal := refuse_without_proof(session, proof, "csrf_token")):
        raise refusal
    response = _to("login")
    try:
        auth = _deps(request).orchestrator.auth
        ended = await call(auth.EndSessions, pb.EndSessionsRequest(everywhere=everywhere))
        if ended.provider_logout_url:
            # No redirect: the page's policy lets no form lead to another site.
            response = _hop(ended.provider_logout_url)
    except UnauthenticatedError:  # it has ended already
        pass
    forget_session(request.scope, response)
    return response


def _refuse_other_sites(request: Request) -> None:
    if request.headers.get("sec-fetch-site", "none") not in OWN_SITES:
        raise RefusedError(403, "another site may not log you in")


def _with_session(
    request: Request,
    response: Response,
    opened: pb.OpenLinkResponse | pb.CreateSessionResponse | pb.CompleteLoginResponse,
) -> Response:
    seconds = to_timedelta(opened.lifetime).total_seconds()
    set_session(request.scope, response, opened.session, seconds)
    return response


def _refused(why: str, place: str = "", root: str = "") -> Response:
    """The form, with the words for a refusal."""
    query = {"refused": str(why), **({"next": place} if place else {})}
    return _to(f"{root}login?{urlencode(query)}")


def _to(path: str) -> Response:
    # Relative: the page may be served under any path.
    return RedirectResponse(path, 303)


def _hop(url: str) -> Response:
    """A page that goes on by itself."""
    return HTMLResponse(_text("hop.html").replace("{url}", escape(url)))


@cache
def _text(name: str) -> str:
    return (PAGE / name).read_text("utf-8")


def _deps(request: Request) -> Dependencies:
    deps: Dependencies = request.app.state.deps
    return deps
