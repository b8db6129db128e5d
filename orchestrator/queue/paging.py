"""Reading a stream page by page from its end: the broker only reads forwards, so by windows."""

from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from mesh.bus import Bus, Stored, storing
from mesh.errors import InvalidRequestError
from mesh.reasons import Reason

DEFAULT_PAGE = 50
MAX_PAGE = 200
FIRST_WINDOW = 256
LAST_WINDOW = 65_536

T = TypeVar("T")


def page_size(asked: int) -> int:
    """How many there will be on a page."""
    if asked < 0:
        raise InvalidRequestError("page_size must not be negative", reason=Reason.REQUEST_INVALID)
    return min(asked or DEFAULT_PAGE, MAX_PAGE)


def sequence_of(token: str) -> int | None:
    """The place a page token stands for; None: the end."""
    if not token:
        return None
    if not (token.isascii() and token.isdigit() and len(token) < 20):
        raise InvalidRequestError(
            "page_token is not one we gave out", reason=Reason.REQUEST_INVALID
        )
    return int(token)


async def newest_first(  # noqa: PLR0913 # what is read, from where, and which of it
    bus: Bus,
    stream: str,
    subject: str,
    *,
    before: int | None,
    size: int,
    read: Callable[[Stored], T],
    wanted: Callable[[T], bool],
) -> AsyncIterator[list[tuple[int, T]]]:
    """What is wanted with its sequence number, newest first, at most `size` at a time."""
    async with storing():
        state = (await bus.jetstream.stream_info(stream)).state
    end = state.last_seq + 1 if before is None else min(before, state.last_seq + 1)
    window = FIRST_WINDOW
    while end > state.first_seq:
        begin = max(state.first_seq, end - window)
        batch: deque[tuple[int, T]] = deque(maxlen=size)
        async for stored in _between(bus, stream, subject, begin, end):
            found = read(stored)
            if wanted(found):
                batch.append((stored.sequence, found))
        if len(batch) == size:  # there may be more in this window
            end = batch[0][0]
        else:  # where few are left, look further each time
            end, window = begin, min(window * 2, LAST_WINDOW)
        yield list(reversed(batch))


async def _between(
    bus: Bus, stream: str, subject: str, begin: int, end: int
) -> AsyncIterator[Stored]:
    async for stored in bus.read(stream, subject, max(0, begin - 1)):
        if stored.sequence >= end:
            return
        yield stored
