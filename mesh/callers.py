"""The guard of a service that accepts callers with one token: that of a file."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from mesh.bearer import received
from mesh.errors import UnauthenticatedError
from mesh.reasons import Reason
from mesh.server import Guard, Service
from mesh.tokens import digest_of, matches, optional_token


def guarded_by(token_file: str, service: Service) -> Service:
    """The service, which refuses calls without the token in the file; "": it accepts all."""
    token = optional_token(token_file)
    return replace(service, guard=_guard(digest_of(token))) if token else service


def _guard(digest: bytes) -> Guard:
    @asynccontextmanager
    async def guard(context: Any, method: str) -> AsyncIterator[None]:
        token = received(context.invocation_metadata())
        if not token:
            raise UnauthenticatedError("this call needs a token", reason=Reason.TOKEN_REQUIRED)
        if not matches(token, digest):
            raise UnauthenticatedError("the token is not valid", reason=Reason.TOKEN_INVALID)
        yield

    return guard
