"""The token that calls of this task carry, and how it travels in metadata."""

from collections.abc import Iterable
from contextvars import ContextVar

KEY = "authorization"
SCHEME = "bearer"
MAX_CLIENT = 64

CLIENT_KEY = "x-client"

_outgoing: ContextVar[str] = ContextVar("outgoing_token", default="")
_client: ContextVar[str] = ContextVar("outgoing_client", default="")


def present(token: str, client: str = "") -> None:
    """Sends the token with every call this task makes from here on; "": sends none.

    `client` is the address of the client that the calls are made for, if not for ourselves.
    """
    _outgoing.set(token)
    _client.set(client if client.isascii() and client.isprintable() else "")


def presented() -> str:
    """The token this task sends; "" if none."""
    return _outgoing.get()


def metadata_of(token: str) -> tuple[tuple[str, str], ...]:
    """Metadata that carries this token; nothing without one."""
    return ((KEY, f"Bearer {token}"),) if token else ()


def bearer_metadata() -> tuple[tuple[str, str], ...]:
    """Metadata that carries the token."""
    token, client = presented(), _client.get()
    return (
        *metadata_of(token),
        *(((CLIENT_KEY, client),) if client else ()),
    )


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


def client_of(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """The client that the caller says it calls for; "" if it names none."""
    for key, value in metadata or ():
        if key == CLIENT_KEY and isinstance(value, str):
            return value[:MAX_CLIENT]
    return ""
