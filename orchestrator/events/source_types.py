"""Source types of `fonte`, and the sources that their parameters name."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason

SITE = "https://www.youtube.com"
MAX_FOUND = 200
"""Recordings of one search at most."""
USUAL_FOUND = 20
TYPE_WORD = re.compile(r"[A-Za-z_][\w-]*")
"""A text like this is a source type: neither an address nor a search."""

ADDRESS = re.compile(r"https?://", re.IGNORECASE)
SITE_ADDRESS = re.compile(r"(?:(?:www|m|music)\.)?(?:youtube\.com|youtu\.be)/", re.IGNORECASE)
CHANNEL_ID = re.compile(r"UC[A-Za-z0-9_-]{22}")
HANDLE = re.compile(r"@?([\w.·-]{1,100})")
PLAYLIST_ID = re.compile(r"[A-Za-z0-9_-]{2,100}")
VIDEO_ID = re.compile(r"[A-Za-z0-9_-]{11}")


class NothingNamedError(InvalidRequestError):
    """An event of the contract that names nothing to collect, or asks for what nothing here does.

    It is answered, and no dead letter: there is nothing to repair and to send again.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, reason=Reason.EVENT_MALFORMED)


@dataclass(slots=True)
class Named:
    """What the parameters of a source type name."""

    sources: list[str] = field(default_factory=list)
    """To be listed."""
    addresses: list[str] = field(default_factory=list)
    """One recording each."""


def channel_address(name: str) -> str:
    """The address of a channel by its id, its handle with or without "@", or its address."""
    if address := _given_address(name):
        return address
    if CHANNEL_ID.fullmatch(name):
        return f"{SITE}/channel/{name}"
    if handle := HANDLE.fullmatch(name):
        return f"{SITE}/@{quote(handle[1])}"
    raise _refused("canal", name, "a channel's name, @handle, id or address")


def playlist_address(name: str) -> str:
    """The address of a playlist by its id or its address."""
    if address := _given_address(name):
        return address
    if PLAYLIST_ID.fullmatch(name):
        return f"{SITE}/playlist?list={name}"
    raise _refused("playlist", name, "a playlist's id or address")


def video_address(name: str) -> str:
    """The address of a recording by its id or its address."""
    if address := _given_address(name):
        return address
    if VIDEO_ID.fullmatch(name):
        return f"{SITE}/watch?v={name}"
    raise _refused("video", name, "a recording's id or address")


def plain_address(name: str) -> str:
    """An address of any site."""
    if address := _given_address(name):
        return address
    raise _refused("url", name, "an http or https address")


def search(words: str, found: int) -> str:
    """yt-dlp's search for these words; bounded, because a search has no end of its own."""
    if not words or not words.isprintable():
        raise _refused("busca", words, "words to search for, in one line")
    return f"ytsearch{min(found or USUAL_FOUND, MAX_FOUND)}:{words}"


def _given_address(name: str) -> str:
    if ADDRESS.match(name):
        return name
    return f"https://{name}" if SITE_ADDRESS.match(name) else ""


def _refused(parameter: str, given: str, expected: str) -> InvalidRequestError:
    return _malformed(f"payload.parametros.{parameter}: {given[:200]!r} is not {expected}")


LISTED: dict[str, Callable[[str], str]] = {
    "canal": channel_address,
    "playlist": playlist_address,
    "url": plain_address,
}
"""Parameters whose recordings are listed; `busca` besides, and `video` is one recording."""
SOURCE_TYPES: dict[str, tuple[str, ...]] = {
    "youtube": ("canal", "playlist", "busca", "url", "video"),
    "url": ("url",),
}
"""The parameters that name something to collect, by the type of the source."""
PLACES = SOURCE_TYPES["youtube"]


def named(fonte: str, given: dict[str, list[str]], max_members: int) -> Named:
    """What a source type and its parameters name; NothingNamedError if that is nothing."""
    allowed = _parameters_of(fonte)
    found = Named()
    for parameter, names in given.items():
        if parameter not in allowed:
            raise _malformed(f"payload.parametros.{parameter}: not with the source type {fonte}")
        for name in (one.strip() for one in names):
            if parameter == "video":
                found.addresses.append(video_address(name))
            elif parameter == "busca":
                found.sources.append(search(name, max_members))
            else:
                found.sources.append(LISTED[parameter](name))
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
