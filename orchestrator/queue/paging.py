"""Pages of a stream, newest first. The broker only reads forwards, so windows are read."""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate, compress, takewhile
from typing import Generic, TypeVar

from google.protobuf.message import Message

from mesh.bus import Bus, Stored
from mesh.errors import InvalidRequestError
from mesh.tasks import map_concurrently

DEFAULT_PAGE = 50
MAX_PAGE = 200
MAX_PAGE_BYTES = 4 * 1024**2 - 64 * 1024
"""Clients receive at most 4 MiB by default; what is left frames the items."""
FIRST_WINDOW = 256
LAST_WINDOW = 65_536
CHECKS_AT_ONCE = 64

T = TypeVar("T", bound=Message)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list, newest first, and the token of the next page."""

    items: list[T]
    next_token: str
    total: int = 0
    """The length of the whole list, where it is known."""


def page_size(asked: int) -> int:
    """The size of a page; the default for 0."""
    if asked < 0:
        raise InvalidRequestError("page_size must not be negative")
    return min(asked or DEFAULT_PAGE, MAX_PAGE)


def fitting(sizes: Iterable[int], budget: int = MAX_PAGE_BYTES) -> int:
    """How many of the first items fit into one answer; at least one, or no page would follow."""
    return max(1, len(list(takewhile(lambda total: total <= budget, accumulate(sizes)))))


def sequence_of(token: str) -> int | None:
    """The sequence a page token stands for; None for the first page."""
    if not token:
        return None
    if not (token.isascii() and token.isdigit() and len(token) < 20):
        raise InvalidRequestError("page_token is not one we gave out")
    return int(token)


async def stream_page(  # noqa: PLR0913 # what is read, from where, and which of it
    bus: Bus,
    stream: str,
    subject: str,
    *,
    size: int,
    token: str,
    read: Callable[[Stored], T],
    wanted: Callable[[T], bool],
    check: Callable[[T], Awaitable[bool]] | None = None,
) -> Page[T]:
    """Wanted messages older than the token's, newest first; `check` may drop more of them."""
    size = page_size(size)
    found: list[tuple[int, T]] = []
    async for batch in _newest_first(
        bus, stream, subject, before=sequence_of(token), size=size + 1, read=read, wanted=wanted
    ):
        found += batch if check is None else await _checked(batch, check)
        if len(found) > size:
            break
    end = fitting(one.ByteSize() for _, one in found[:size])
    next_token = str(found[end - 1][0]) if len(found) > end else ""
    return Page([one for _, one in found[:end]], next_token)


async def _checked(
    batch: list[tuple[int, T]], check: Callable[[T], Awaitable[bool]]
) -> list[tuple[int, T]]:
    items = (one for _, one in batch)
    return list(compress(batch, await map_concurrently(check, items, at_once=CHECKS_AT_ONCE)))


async def _newest_first(  # noqa: PLR0913 # what is read, from where, and which of it
    bus: Bus,
    stream: str,
    subject: str,
    *,
    before: int | None,
    size: int,
    read: Callable[[Stored], T],
    wanted: Callable[[T], bool],
) -> AsyncIterator[list[tuple[int, T]]]:
    """Wanted messages with their sequence numbers, newest first, at most `size` at a time."""
    state = await bus.state(stream)
    end = state.last_seq + 1 if before is None else min(before, state.last_seq + 1)
    window = FIRST_WINDOW
    while end > state.first_seq:
        begin = max(state.first_seq, end - window)
        batch: deque[tuple[int, T]] = deque(maxlen=size)
        async for stored in bus.read(stream, subject, max(0, begin - 1)):
            if stored.sequence >= end:
                break
            found = read(stored)
            if wanted(found):
                batch.append((stored.sequence, found))
        if len(batch) == size:  # there may be more in this window
            end = batch[0][0]
        else:  # where few are left, look further each time
            end, window = begin, min(window * 2, LAST_WINDOW)
        yield list(reversed(batch))
