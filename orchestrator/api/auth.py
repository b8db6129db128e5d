"""AuthService, and the guard that every call to the orchestrator passes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from structlog.contextvars import bound_contextvars

from mesh import correlation
from mesh.bearer import client_of, received
from mesh.identity import PACKAGE, TRUSTED, acting_for, current
from mesh.server import Guard
from orchestrator.access.audit import Audit
from orchestrator.access.login import Login
from orchestrator.access.oidc import LOGIN_TIME, Answer
from orchestrator.jobs.validation import check_duration
from ytcaption.v1 import auth_service_pb2 as pb
from ytcaption.v1 import auth_service_pb2_grpc as rpc
from ytcaption.v1.audit_pb2 import AuditEntry


def login_guard(login: Login, audit: Audit) -> Guard:
    """Refuses calls that the caller's role may not make; runs the others on its behalf."""

    @asynccontextmanager
    async def guard(context: Any, method: str) -> AsyncIterator[None]:
        if not login.on:
            with acting_for(TRUSTED):
                yield
            return
        metadata = context.invocation_metadata()
        entry = AuditEntry(
            peer=context.peer(),
            client=client_of(metadata),
            method=method.removeprefix(PACKAGE),
            correlation_id=correlation.current(),
        )
        with audit.recording(entry):
            caller = await login.identify(received(metadata), method)
            entry.subject, entry.token_id = caller.subject, caller.token_id
            caller.check(entry.method)
            known = {"subject": caller.subject} if caller.subject else {}
            with bound_contextvars(**known), acting_for(caller), login.running(caller):
                yield

    return guard


@dataclass(frozen=True, slots=True)
class AuthServicer(rpc.AuthServiceServicer):
    """Translates between messages and the login; decides nothing."""

    login: Login

    async def CreateToken(
        self, request: pb.CreateTokenRequest, context: Any
    ) -> pb.CreateTokenResponse:
        lifetime = (
            check_duration(request.lifetime, "lifetime") if request.HasField("lifetime") else None
        )
        made = await self.login.create(
            request.subject, request.role, lifetime, request.note, request.groups
        )
        return pb.CreateTokenResponse(secret=made.secret, token=made.token)

    async def ListTokens(
        self, request: pb.ListTokensRequest, context: Any
    ) -> pb.ListTokensResponse:
        page = await self.login.page(request.page_size, request.page_token, request.subject)
        return pb.ListTokensResponse(tokens=page.items, next_page_token=page.next_token)

    async def RevokeToken(
        self, request: pb.RevokeTokenRequest, context: Any
    ) -> pb.RevokeTokenResponse:
        return pb.RevokeTokenResponse(token=await self.login.revoke(request.token_id))

    async def GetCaller(self, request: pb.GetCallerRequest, context: Any) -> pb.GetCallerResponse:
        caller = current()
        found = pb.GetCallerResponse(
            subject=caller.subject, login=self.login.on, groups=caller.groups
        )
        found.role = caller.role  # type: ignore[assignment] # the same numbers
        return found

    async def CreateLink(
        self, request: pb.CreateLinkRequest, context: Any
    ) -> pb.CreateLinkResponse:
        return pb.CreateLinkResponse(code=await self.login.create_link())

    async def OpenLink(self, request: pb.OpenLinkRequest, context: Any) -> pb.OpenLinkResponse:
        made = await self.login.open_link(request.code)
        response = pb.OpenLinkResponse(session=made.secret)
        response.lifetime.FromTimedelta(self.login.session_time)
        return response

    async def CreateSession(
        self, request: pb.CreateSessionRequest, context: Any
    ) -> pb.CreateSessionResponse:
        made = await self.login.create_session()
        response = pb.CreateSessionResponse(session=made.secret)
        response.lifetime.FromTimedelta(self.login.session_time)
        return response

    async def EndSessions(
        self, request: pb.EndSessionsRequest, context: Any
    ) -> pb.EndSessionsResponse:
        ended = await self.login.end_sessions(
            everywhere=request.everywhere, subject=request.subject
        )
        return pb.EndSessionsResponse(
            sessions_ended=ended.count, provider_logout_url=ended.logout_url
        )

    async def GetLoginMethods(
        self, request: pb.GetLoginMethodsRequest, context: Any
    ) -> pb.GetLoginMethodsResponse:
        return pb.GetLoginMethodsResponse(login=self.login.on, provider=self.login.provider_name)

    async def BeginLogin(
        self, request: pb.BeginLoginRequest, context: Any
    ) -> pb.BeginLoginResponse:
        url, secret = await self.login.begin_login()
        response = pb.BeginLoginResponse(authorization_url=url, secret=secret)
        response.lifetime.FromTimedelta(LOGIN_TIME)
        return response

    async def CompleteLogin(
        self, request: pb.CompleteLoginRequest, context: Any
    ) -> pb.CompleteLoginResponse:
        answer = Answer(request.secret, request.state, request.code, request.issuer, request.error)
        made = await self.login.complete_login(answer)
        response = pb.CompleteLoginResponse(session=made.secret)
        response.lifetime.FromTimedelta(self.login.session_time)
        return response
