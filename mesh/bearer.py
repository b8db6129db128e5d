"""The token that calls of this task carry, and how it travels in metadata."""

from collections.abc import Iterable
from contextvars import ContextVar

KEY = "authorization"
SCHEME = "bearer"

_outgoing: ContextVar[str] = ContextVar("outgoing_token", default="")


def present(token: str) -> None:
    """Sends the token with every call this task makes from here on; "": sends none."""
    _outgoing.set(token)


def presented() -> str:
    """The token this task sends; "" if none."""
    return _outgoing.get()


def bearer_metadata() -> tuple[tuple[str, str], ...]:
    """Metadata that carries the token."""
    token = presented()
    return ((KEY, f"Bearer {token}"),) if token else ()


def token_of(header: str) -> str:
    """The token in the value of an Authorization header; "" if it is of another scheme."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == SCHEME else ""


def received(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """The token a call came with; "" without one."""
    for key, value in metadata or ():
        if key == KEY and isinstance(value, str) and (token := token_of(value)):
            return token
    return ""
