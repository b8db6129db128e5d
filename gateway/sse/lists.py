"""Event streams of lists: the page as it is, then again whenever it has changed."""

from collections.abc import Callable
from functools import lru_cache
from math import inf
from typing import Any, TypeVar

from google.protobuf.message import Message
from pydantic import BaseModel

from gateway.sse.buffer import UpdateBuffer
from gateway.sse.stream import Stream, encode
from mesh.watching import follow_pages

CACHED_PAGES = 64
PageT = TypeVar("PageT", bound=Message)


class ListStream(Stream[PageT]):
    """One page of a list as it changes; a slow client gets only the newest version.

    Waits through any outage of the orchestrator.
    """

    def __init__(
        self,
        name: str,
        watch: Callable[..., Any],
        request: Message,
        present: Callable[[PageT], BaseModel],
    ) -> None:
        pages = follow_pages(watch, request, patience_seconds=inf)
        super().__init__(name, UpdateBuffer(pages, lambda _: 0))
        self._present: Callable[[Any], BaseModel] = present

    def _encode(self, update: PageT) -> bytes:
        page_type: Any = type(update)  # hashable, which its type hints deny
        return _event(self._subject, page_type, update.SerializeToString(), self._present)


@lru_cache(maxsize=CACHED_PAGES)
def _event(
    name: str, page_type: type[Message], page: bytes, present: Callable[[Any], BaseModel]
) -> bytes:
    """Cached by content: clients that watch the same list share one encoding."""
    return encode(name, present(page_type.FromString(page)))
