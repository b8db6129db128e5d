"""Which bytes of a file are wanted."""

import re
from dataclasses import dataclass

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes from the first to the last, both included."""

    first: int
    last: int

    @property
    def size(self) -> int:
        """How many."""
        return self.last - self.first + 1


class OutsideError(Exception):
    """Nothing of what is asked for is there."""


def wanted(header: str | None, size: int) -> Span | None:
    """One range of a file of that size; None means all of it.

    What is no range of bytes, or several at once, is as if nothing was said: RFC 9110 allows it.
    """
    found = _RANGE.fullmatch(header.strip()) if header else None
    if found is None or found[0] == "bytes=-":
        return None
    if not found[1]:
        return _from_the_end(int(found[2]), size)
    first = int(found[1])
    last = int(found[2]) if found[2] else size - 1
    if found[2] and last < first:
        return None
    if first >= size:
        raise OutsideError
    return Span(first, min(last, size - 1))


def _from_the_end(count: int, size: int) -> Span:
    if not count or not size:
        raise OutsideError
    return Span(max(0, size - count), size - 1)
