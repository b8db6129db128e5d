"""Verification of ID tokens: signature, issuer, audience, times and nonce (OpenID Connect Core)."""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import jwt
from jwt import PyJWK, exceptions

from mesh.errors import UnauthenticatedError
from mesh.reasons import Reason
from orchestrator.access.provider import ALGORITHMS

MAX_BYTES = 16 * 1024
LEEWAY_SECONDS = 60.0
"""How far the provider's clock may be from ours."""
MAX_AGE_SECONDS = 600.0
"""A token issued longer ago is not of this login."""
REASONS: tuple[tuple[type[exceptions.PyJWTError], Reason], ...] = (
    (exceptions.ExpiredSignatureError, Reason.OIDC_TOKEN_EXPIRED),
    (exceptions.ImmatureSignatureError, Reason.OIDC_TOKEN_EXPIRED),
    (exceptions.InvalidAudienceError, Reason.OIDC_AUDIENCE_MISMATCH),
    (exceptions.InvalidIssuerError, Reason.OIDC_ISSUER_MISMATCH),
    (exceptions.InvalidAlgorithmError, Reason.OIDC_ALGORITHM_FORBIDDEN),
    (exceptions.InvalidSignatureError, Reason.OIDC_SIGNATURE_INVALID),
    (exceptions.InvalidKeyError, Reason.OIDC_KEY_UNKNOWN),
)
"""The reason of each defect; OIDC_TOKEN_MALFORMED of all others."""

FindKey = Callable[[str | None, str], Awaitable[PyJWK]]
"""The key with an id, for an algorithm."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a token must say."""

    issuer: str
    audience: str
    nonce: str


async def verified(token: str, expected: Expected, find_key: FindKey) -> Mapping[str, Any]:
    """The claims of a token; raises for the first of its defects."""
    if len(token) > MAX_BYTES:
        raise _refused("is too large", Reason.OIDC_TOKEN_MALFORMED)
    try:
        header = jwt.get_unverified_header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
            raise _refused("is not signed as it must be", Reason.OIDC_ALGORITHM_FORBIDDEN)
        claims: dict[str, Any] = jwt.decode(
            token,
            await find_key(kid, algorithm),
            algorithms=[algorithm],
            audience=expected.audience,
            issuer=expected.issuer,
            leeway=LEEWAY_SECONDS,
            options={
                "require": ["iss", "sub", "aud", "exp", "iat"],
                "enforce_minimum_key_length": True,
            },
        )
    except exceptions.PyJWTError as error:
        kinds = (reason for kind, reason in REASONS if isinstance(error, kind))
        reason = next(kinds, Reason.OIDC_TOKEN_MALFORMED)
        raise _refused(f"is not valid: {error}"[:200], reason) from None
    _check(claims, expected)
    return claims


def _check(claims: Mapping[str, Any], expected: Expected) -> None:
    """What the library leaves to us."""
    issued = claims["iat"]
    if not isinstance(issued, int | float):
        raise _refused("was issued at no time", Reason.OIDC_TOKEN_MALFORMED)
    if issued < datetime.now(UTC).timestamp() - MAX_AGE_SECONDS - LEEWAY_SECONDS:
        raise _refused("was issued too long ago", Reason.OIDC_TOKEN_EXPIRED)
    audience, party = claims["aud"], claims.get("azp")
    several = isinstance(audience, list) and len(audience) > 1
    if party != expected.audience and (several or party is not None):
        raise _refused("was issued to another client", Reason.OIDC_AUDIENCE_MISMATCH)
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not hmac.compare_digest(
        nonce.encode(), expected.nonce.encode()
    ):
        raise _refused("is not of this login", Reason.OIDC_NONCE_MISMATCH)


def _refused(what: str, reason: Reason) -> UnauthenticatedError:
    return UnauthenticatedError(f"the ID token {what}", reason=reason)
