"""Source types of `fonte`, and the sources that their parameters name."""

import re

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from orchestrator.tasks.source_names import Named, places_of

TYPE_WORD = re.compile(r"[A-Za-z_][\w-]*")
"""A text like this is a source type: neither an address nor a search."""


class NothingNamedError(InvalidRequestError):
    """An event of the contract that names nothing to collect, or asks for what nothing here does.

    It is answered, and no dead letter: there is nothing to repair and to send again.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, reason=Reason.EVENT_MALFORMED)


SOURCE_TYPES: dict[str, tuple[str, ...]] = {
    "youtube": ("canal", "playlist", "busca", "url", "video"),
    "url": ("url",),
}
"""The parameters that name something to collect, by the type of the source."""
PLACES = SOURCE_TYPES["youtube"]


def named(fonte: str, given: dict[str, list[str]], max_members: int) -> Named:
    """What a source type and its parameters name; NothingNamedError if that is nothing."""
    allowed = _parameters_of(fonte)
    for parameter in given:
        if parameter not in allowed:
            raise _malformed(f"payload.parametros.{parameter}: not with the source type {fonte}")
    try:
        found = places_of(given, max_members)
    except InvalidRequestError as error:
        raise _malformed(f"payload.parametros.{error}") from error
    if not found.sources and not found.addresses:
        raise NothingNamedError(
            f"payload.parametros: names nothing to collect; give one of {', '.join(allowed)}"
        )
    return found


def _parameters_of(fonte: str) -> tuple[str, ...]:
    if fonte.lower() not in SOURCE_TYPES:
        known = ", ".join(sorted(SOURCE_TYPES))
        raise _malformed(
            f"payload.fonte: there is no source type {fonte[:100]!r}; there are {known}, and"
            " addresses and searches"
        )
    return SOURCE_TYPES[fonte.lower()]


def _malformed(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, reason=Reason.EVENT_MALFORMED)
