"""The login by an OpenID Connect provider: authorization code flow with PKCE, and who came of it.

A login has one secret, which the browser keeps; `state`, `nonce` and the PKCE verifier are derived
from it, so that nothing is stored before the provider has vouched for a person.
"""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from secrets import token_urlsafe
from typing import Any
from urllib.parse import urlencode, urlsplit

from mesh.errors import ForbiddenError, UnauthenticatedError
from mesh.identity import Role
from mesh.login_provider import EVERYONE
from mesh.reasons import Reason
from orchestrator.access.audit import logged_in
from orchestrator.access.id_tokens import Expected, verified
from orchestrator.access.provider import Provider
from orchestrator.settings import Settings

LOGIN_TIME = timedelta(minutes=10)
"""How long the provider's answer is waited for."""
MAX_ANSWER = 4096
MAX_SUBJECT = 128
MAX_HINT = 4096
"""A longer ID token is not sent to the provider at logout: it would not fit an address."""
FIRST_SUBJECT = "admin"
"""The subject of the token of the setting, which no provider can name."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The provider's answer to a login, as the browser brought it."""

    secret: str
    state: str
    code: str
    issuer: str
    error: str


@dataclass(frozen=True, slots=True)
class Person:
    """The person that the provider vouched for."""

    subject: str
    role: Role
    id_token: str
    """For the logout at the provider; empty if it offers none."""


class Oidc:
    """Begins and completes logins; stores nothing."""

    def __init__(self, provider: Provider, settings: Settings) -> None:
        self.issuer = settings.oidc_issuer
        self.name = settings.oidc_name or urlsplit(settings.oidc_issuer).hostname or ""
        self._provider = provider
        self._page = settings.oidc_redirect.removesuffix("/")
        self._scopes = settings.oidc_scopes
        self._subject_claim = settings.oidc_subject_claim
        self._roles_claim = settings.oidc_roles_claim
        self._roles = settings.oidc_role_table

    @property
    def _redirect_uri(self) -> str:
        return f"{self._page}/login/callback"

    async def begin(self) -> tuple[str, str]:
        """Where to send the browser, and the secret it keeps."""
        secret = token_urlsafe(32)
        challenge = _base64(sha256(derived(secret, "verifier").encode()).digest())
        query = {
            "response_type": "code",
            "client_id": self._provider.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": self._scopes,
            "state": derived(secret, "state"),
            "nonce": derived(secret, "nonce"),
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return _with_query((await self._provider.endpoints()).authorization, query), secret

    async def identify(self, answer: Answer) -> Person:
        """The person of a login; raises unless every part of it fits."""
        self._check_state(answer)
        endpoints = await self._provider.endpoints()
        if answer.issuer != self.issuer and (answer.issuer or endpoints.names_issuer):
            raise UnauthenticatedError(
                "the answer is of another provider", reason=Reason.OIDC_ISSUER_MISMATCH
            )
        if answer.error or not answer.code:
            raise UnauthenticatedError("the provider refused", reason=Reason.OIDC_DENIED)
        verifier = derived(answer.secret, "verifier")
        token = await self._provider.id_token(answer.code, verifier, self._redirect_uri)
        nonce = derived(answer.secret, "nonce")
        expected = Expected(self.issuer, self._provider.client_id, nonce)
        claims = await verified(token, expected, self._provider.key)
        subject = self._subject_of(claims)
        logged_in(subject)
        hint = token if endpoints.logout and len(token) <= MAX_HINT else ""
        return Person(subject, self._role_of(claims), hint)

    def _check_state(self, answer: Answer) -> None:
        state = derived(answer.secret, "state")
        fitting = hmac.compare_digest(state.encode(), answer.state.encode())
        if not (answer.secret and fitting) or len(answer.secret + answer.code) > MAX_ANSWER:
            raise state_refused()

    def _subject_of(self, claims: Mapping[str, Any]) -> str:
        claim = self._subject_claim
        subject = claims.get(claim)
        refusal = UnauthenticatedError(
            f"the claim {claim} is no subject", reason=Reason.OIDC_SUBJECT_INVALID
        )
        if not isinstance(subject, str) or not subject.strip() or not subject.isprintable():
            raise refusal
        if len(subject) > MAX_SUBJECT or subject == FIRST_SUBJECT:
            raise refusal
        if claim == "email" and claims.get("email_verified") is not True:
            raise refusal
        return subject

    def _role_of(self, claims: Mapping[str, Any]) -> Role:
        """The highest of the roles of the person's groups."""
        groups = {EVERYONE, *_groups(claims, self._roles_claim)}
        roles = [role for group, role in self._roles.items() if group in groups]
        if not roles:
            raise ForbiddenError("the person has no role here", reason=Reason.OIDC_ROLE_MISSING)
        return max(roles)

    async def logout_url(self, id_token: str) -> str:
        """Where the provider ends its own session; "" if it announces no such address."""
        endpoint = (await self._provider.endpoints()).logout
        if not endpoint:
            return ""
        query = {
            "client_id": self._provider.client_id,
            "post_logout_redirect_uri": f"{self._page}/login",
        }
        if id_token:
            query["id_token_hint"] = id_token
        return _with_query(endpoint, query)


def derived(secret: str, purpose: str) -> str:
    """One of the values of a login, from which neither the secret nor another can be found."""
    return _base64(hmac.digest(secret.encode(), purpose.encode(), "sha256"))


def state_refused() -> UnauthenticatedError:
    """The answer is not of a login that this browser began and that is still open."""
    return UnauthenticatedError(
        "this login was not begun in this browser, took too long, or is completed already",
        reason=Reason.OIDC_STATE_INVALID,
    )


def _groups(claims: Mapping[str, Any], claim: str) -> list[str]:
    found: Any = claims.get(claim)
    if found is None:
        found = claims
        for part in claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    listed = found if isinstance(found, list) else [found]
    return [group for group in listed if isinstance(group, str)]


def _with_query(url: str, query: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
