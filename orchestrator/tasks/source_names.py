"""Names of channels, playlists, searches and recordings, and the addresses they stand for."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason

SITE = "https://www.youtube.com"
MAX_FOUND = 200
"""Recordings of one search at most."""
USUAL_FOUND = 20

ADDRESS = re.compile(r"https?://", re.IGNORECASE)
SITE_ADDRESS = re.compile(r"(?:(?:www|m|music)\.)?(?:youtube\.com|youtu\.be)/", re.IGNORECASE)
CHANNEL_ID = re.compile(r"UC[A-Za-z0-9_-]{22}")
HANDLE = re.compile(r"@?([\w.·-]{1,100})")
PLAYLIST_ID = re.compile(r"[A-Za-z0-9_-]{2,100}")
VIDEO_ID = re.compile(r"[A-Za-z0-9_-]{11}")


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
    return InvalidRequestError(
        f"{parameter}: {given[:200]!r} is not {expected}", reason=Reason.PARAMETERS_INVALID
    )


LISTED: dict[str, Callable[[str], str]] = {
    "canal": channel_address,
    "playlist": playlist_address,
    "url": plain_address,
}
"""Parameters whose recordings are listed; `busca` besides, and `video` is one recording."""


def places_of(given: Mapping[str, Sequence[str]], max_found: int) -> Named:
    """What parameters name; a search finds at most so many recordings, 0: as many as usual."""
    found = Named()
    for parameter, names in given.items():
        for name in (one.strip() for one in names):
            if parameter == "video":
                found.addresses.append(video_address(name))
            elif parameter == "busca":
                found.sources.append(search(name, max_found))
            else:
                found.sources.append(LISTED[parameter](name))
    return found
