"""The OpenID Connect provider over HTTP: its endpoints, its keys, and ID tokens for codes.

Requests go only to the issuer's host and to those the operator named, follow no redirect, and have
limits of time, size and number.
"""

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Self
from urllib.parse import quote_plus, urlencode, urlsplit

import httpcore2 as httpcore
from jwt import PyJWK
from jwt.exceptions import PyJWTError
from structlog import get_logger

from mesh.errors import UnauthenticatedError, UnavailableError
from mesh.login_provider import is_safe_url
from mesh.private import exposure_of
from mesh.reasons import Reason
from mesh.tasks import SingleFlight
from orchestrator.settings import Settings

log = get_logger(__name__)

ALGORITHMS = {"RS256": ("RSA", ""), "ES256": ("EC", "P-256"), "EdDSA": ("OKP", "Ed25519")}
"""Accepted signatures, and the kind of key that each needs."""
DISCOVERY = "/.well-known/openid-configuration"
ANSWER_SECONDS = 10.0
MAX_ANSWER_BYTES = 256 * 1024
MAX_KEYS = 100
MAX_SECRET_BYTES = 4096
MAX_EXCHANGES = 16
FRESH_SECONDS = 3600.0
"""How long endpoints and keys are used before they are read again."""
FETCH_BURST, FETCH_SECONDS = 5, 10.0
"""Endpoints and keys are read this often at once, then once in this time."""
FAILURES = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    OSError,
    TimeoutError,
)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What the discovery document says, as far as it is used."""

    authorization: str
    token: str
    keys: str
    logout: str
    """Empty if the provider announces none."""
    names_issuer: bool
    """Whether answers to the browser name the issuer (RFC 9207)."""
    posts_secret: bool
    """Whether the secret belongs in the form; in a header otherwise."""


class Provider:
    """One provider; what it says is read when it is needed, and kept for a while."""

    def __init__(self, settings: Settings, pool: httpcore.AsyncConnectionPool) -> None:
        self.issuer = settings.oidc_issuer
        self.client_id = settings.oidc_client_id
        self._hosts = {urlsplit(self.issuer).hostname, *_listed(settings.oidc_hosts)}
        self._secret = read_secret(settings.oidc_client_secret_file)
        self._pool = pool
        self._exchanges = asyncio.Semaphore(MAX_EXCHANGES)
        self._endpoints: Endpoints | None = None
        self._endpoints_until = 0.0
        self._keys: list[dict[str, Any]] = []
        self._keys_until = 0.0
        self._fetches, self._fetches_renewed = float(FETCH_BURST), monotonic()
        self._read_endpoints = SingleFlight(self._fetch_endpoints)
        self._read_keys = SingleFlight(self._fetch_keys)

    @classmethod
    @asynccontextmanager
    async def opened(cls, settings: Settings) -> AsyncIterator[Self | None]:
        """The provider of the settings, inside this block; None if they name none."""
        if not settings.oidc_issuer:
            yield None
            return
        pool = httpcore.AsyncConnectionPool(
            ssl_context=httpcore.default_ssl_context(),
            max_connections=2 * MAX_EXCHANGES,
            max_keepalive_connections=0,
        )
        async with pool:
            yield cls(settings, pool)

    async def endpoints(self) -> Endpoints:
        """The provider's endpoints."""
        if self._endpoints is None or monotonic() >= self._endpoints_until:
            await self._read_endpoints()
        if self._endpoints is None:
            raise _unavailable("its discovery document was not read")
        return self._endpoints

    async def key(self, kid: str | None, algorithm: str) -> PyJWK:
        """The key that signed a token; keys are read again if it is not among those known."""
        if monotonic() >= self._keys_until or self._find(kid, algorithm) is None:
            await self._read_keys()
        found = self._find(kid, algorithm)
        if found is None:
            raise UnauthenticatedError(
                "the provider has no such key for the ID token", reason=Reason.OIDC_KEY_UNKNOWN
            )
        try:
            return PyJWK(found, algorithm)
        except PyJWTError:
            raise _unavailable("a key of it is malformed") from None

    def _find(self, kid: str | None, algorithm: str) -> dict[str, Any] | None:
        fitting = [key for key in self._keys if _fits(key, algorithm)]
        if kid is None:  # then there must be only one
            return fitting[0] if len(fitting) == 1 else None
        return next((key for key in fitting if key.get("kid") == kid), None)

    async def id_token(self, code: str, verifier: str, redirect_uri: str) -> str:
        """Exchanges a code for an ID token, which is not verified yet."""
        endpoints = await self.endpoints()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if not self._secret or endpoints.posts_secret:
            form["client_id"] = self.client_id
        if self._secret and endpoints.posts_secret:
            form["client_secret"] = self._secret
        elif self._secret:
            pair = f"{quote_plus(self.client_id)}:{quote_plus(self._secret)}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        if self._exchanges.locked():
            raise UnavailableError("too many logins are under way", reason=Reason.OIDC_UNAVAILABLE)
        async with self._exchanges:
            body = urlencode(form).encode()
            status, answer = await self._request("POST", endpoints.token, headers, body)
        if status in (400, 401):
            error = answer.get("error")
            log.warning("the provider refused a code", error=str(error)[:100])
            if error != "invalid_grant":  # our registration with it is at fault
                raise _unavailable("it refuses this mesh as a client")
            raise UnauthenticatedError(
                "the provider does not accept the code, or it was used already",
                reason=Reason.OIDC_CODE_REFUSED,
            )
        token = answer.get("id_token")
        if status != 200 or not isinstance(token, str):
            raise _unavailable(f"its token endpoint answered {status} without an ID token")
        return token

    async def _fetch_endpoints(self) -> None:
        if self._endpoints is not None and monotonic() < self._endpoints_until:
            return
        found = await self._get(self.issuer.removesuffix("/") + DISCOVERY)
        if "issuer" not in found:
            raise _unavailable("its discovery document is malformed")
        if found["issuer"] != self.issuer:
            raise UnauthenticatedError(
                "the provider has another name than ORCHESTRATOR_OIDC_ISSUER",
                reason=Reason.OIDC_ISSUER_MISMATCH,
            )
        methods = found.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        offered = methods if isinstance(methods, list) else []
        self._endpoints = Endpoints(
            authorization=self._address(found, "authorization_endpoint"),
            token=self._address(found, "token_endpoint"),
            keys=self._address(found, "jwks_uri"),
            logout=self._address(found, "end_session_endpoint", needed=False),
            names_issuer=found.get("authorization_response_iss_parameter_supported") is True,
            posts_secret="client_secret_basic" not in offered and "client_secret_post" in offered,
        )
        self._endpoints_until = monotonic() + FRESH_SECONDS

    def _address(self, found: Mapping[str, Any], name: str, *, needed: bool = True) -> str:
        """An endpoint of the discovery document; it must be at a host that is trusted."""
        url = found.get(name)
        if url is None and not needed:
            return ""
        # A query is part of some authorization endpoints.
        if not isinstance(url, str) or not is_safe_url(url.partition("?")[0]):
            raise _unavailable(f"its {name} is no https address")
        if urlsplit(url).hostname not in self._hosts:
            raise _unavailable(f"its {name} is at a host that ORCHESTRATOR_OIDC_HOSTS lacks")
        return url

    async def _fetch_keys(self) -> None:
        found = (await self._get((await self.endpoints()).keys)).get("keys")
        if not isinstance(found, list):
            raise _unavailable("its keys are malformed")
        self._keys = [key for key in found[:MAX_KEYS] if isinstance(key, dict)]
        self._keys_until = monotonic() + FRESH_SECONDS

    async def _get(self, url: str) -> Mapping[str, Any]:
        now = monotonic()
        gained = (now - self._fetches_renewed) / FETCH_SECONDS
        self._fetches = min(FETCH_BURST, self._fetches + gained)
        self._fetches_renewed = now
        if self._fetches < 1:
            raise _unavailable("it was asked too often", retry_after_seconds=FETCH_SECONDS)
        self._fetches -= 1
        status, answer = await self._request("GET", url, {})
        if status != 200:
            raise _unavailable(f"{urlsplit(url).path} was answered with {status}")
        return answer

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> tuple[int, Mapping[str, Any]]:
        """The status and the JSON object of an answer."""
        sent = [("Host", urlsplit(url).netloc), ("Accept", "application/json"), *headers.items()]
        data = b""
        try:
            async with (
                asyncio.timeout(ANSWER_SECONDS),
                self._pool.stream(method, url, headers=sent, content=body) as response,
            ):
                async for chunk in response.aiter_stream():
                    data += chunk
                    if len(data) > MAX_ANSWER_BYTES:
                        raise _unavailable("its answer is too large")
        except FAILURES as error:
            log.warning("the provider does not answer", url=url, error=repr(error))
            raise _unavailable("it does not answer") from None
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            answer = {}
        return response.status, answer if isinstance(answer, dict) else {}


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    kind, curve = ALGORITHMS[algorithm]
    return (
        key.get("kty") == kind
        and (not curve or key.get("crv") == curve)
        and key.get("use", "sig") == "sig"
        and key.get("alg", algorithm) == algorithm
    )


def _listed(text: str) -> Iterator[str]:
    return (part.strip().lower() for part in text.split(",") if part.strip())


def read_secret(file: str) -> str:
    """The secret in a file that no other user can read; "" without one."""
    if not file:
        return ""
    path = Path(file)
    try:
        why = exposure_of(path.stat())
        with path.open("rb") as opened:
            secret = opened.read(MAX_SECRET_BYTES).decode("ascii").strip()
    except (OSError, ValueError) as error:
        why, secret = getattr(error, "strerror", None) or "it holds no secret", ""
    if why or not secret:
        raise UnavailableError(
            f"cannot use the client secret {file}: {why or 'it is empty'}",
            reason=Reason.STORAGE_FORBIDDEN,
        )
    return secret


def _unavailable(why: str, retry_after_seconds: float | None = None) -> UnavailableError:
    return UnavailableError(
        f"the login provider cannot be used now: {why}",
        reason=Reason.OIDC_UNAVAILABLE,
        retry_after_seconds=retry_after_seconds,
    )
