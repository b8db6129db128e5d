"""What the broker has answered, by kind of request, and how long to wait for the rest."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeVar

from nats.js.errors import NotFoundError

from mesh.tasks import mark_retrieved

T = TypeVar("T")
Request = Callable[[], Coroutine[Any, Any, T]]

LEAVE_SECONDS, LONGEST_LEAVE_SECONDS = 3.0, 6.0
"""A server whose JetStream has not answered for this long is left for another of the cluster."""
STEPS = 5
"""A prompt request waits in steps, so that a pause of this process counts as one step at most."""
AGAIN_STEPS = 2
"""The last of these, for a request that is sent again."""
NEVER_LOST, OVERTAKEN = 2**63, 0
"""Numbers of requests that no later one overtakes, and that any answer has overtaken."""


class LostError(TimeoutError):
    """A request that was sent later has been answered, and this one has not."""


class Patience:
    """How long one caller waits for a store that does not answer, over all its requests."""

    def __init__(self, seconds: float) -> None:
        self.step = seconds / STEPS
        self.left = seconds

    @property
    def over(self) -> bool:
        """Whether less than half a step is left, which is too little to wait for."""
        return self.left < self.step / 2


_current: ContextVar[Patience | None] = ContextVar("patience", default=None)


def current_patience() -> Patience | None:
    """That of the present caller; None if it waits as long as it takes."""
    return _current.get()


@contextmanager
def prompt(seconds: float, *, alone: bool = False) -> Iterator[None]:
    """Requests inside this block share one patience; inside another block they share that one's.

    Only a store at a standstill uses it up, or a request that the store lost: not a slow store
    that answers earlier requests meanwhile. `alone`: the block shares nothing with others.
    """
    patience = None if alone else _current.get()
    token = _current.set(patience or Patience(seconds))
    try:
        yield
    finally:
        _current.reset(token)


@dataclass(slots=True)
class Answers:
    """Answers of the server we are connected to.

    It answers requests of one kind, such as writes to one stream, in the order they were sent.
    """

    counts: Counter[str] = field(default_factory=Counter)
    _sent: int = 0
    _newest: Counter[str] = field(default_factory=Counter)
    """By kind, the number of the last request that was carried out."""
    _failing_since: dict[str, float] = field(default_factory=dict)
    _changed_at: float = 0.0
    """When we last left a server."""
    _left_for: str = ""
    """The kind of request that was not answered there."""
    _changes: int = 0
    """Servers left since that kind was answered."""

    def note(self, kind: str, number: int) -> None:
        """Counts the request of that number as carried out.

        A refusal does not count: it does not wait for the replicas, so it overtakes writes that
        do, and a leader that was cut off refuses, too.
        """
        self.counts[kind] += 1
        self._newest[kind] = max(number, self._newest[kind])
        self._failing_since.pop(kind, None)
        if kind == self._left_for:
            self._left_for, self._changes = "", 0

    def must_leave(self, kind: str, began: float, servers: int) -> bool:
        """Notes a request without an answer; True if this one of the servers must be left now.

        Every server is tried once before any is given more time, until that kind is answered: one
        of them may be cut off, and all of them without an answer only hold an election.
        """
        now, since = monotonic(), self._failing_since.setdefault(kind, began)
        rounds = self._changes // servers
        leave_seconds = min(LEAVE_SECONDS * 2**rounds, LONGEST_LEAVE_SECONDS)
        if servers == 1 or now - since < leave_seconds or began < self._changed_at:
            return False
        self._failing_since.clear()
        self._changed_at, self._left_for = now, kind
        self._changes += 1
        return True

    async def to(self, kind: str, request: Request[T], *, repeatable: bool) -> T:
        """Sends a request and waits for its answer: as long as it takes, unless it is prompt.

        Then TimeoutError after as long as its caller has patience without any answer of this kind,
        or if the request was lost. A lost request that is repeatable is sent again once before
        that. A slow store that answers in order is waited for.
        """
        number = self._next()
        sent = self._noted(kind, request, number)
        patience = current_patience()
        if patience is None:
            return await sent
        try:
            kept = AGAIN_STEPS * patience.step if repeatable else 0
            return await self._promptly(kind, sent, number, patience, kept)
        except LostError:
            if not repeatable or patience.over:
                raise
        sent = self._noted(kind, request, self._next())
        return await self._promptly(kind, sent, OVERTAKEN, patience)

    async def while_moving(self, kind: str, request: Request[T]) -> T:
        """Waits for what depends on later requests of this kind; TimeoutError as above."""
        patience = current_patience()
        if patience is None:
            return await request()
        return await self._promptly(kind, request(), NEVER_LOST, patience)

    def _next(self) -> int:
        self._sent += 1
        return self._sent

    async def _noted(self, kind: str, request: Request[T], number: int) -> T:
        try:
            answer = await request()
        except NotFoundError:  # the answer to a read
            self.note(kind, number)
            raise
        self.note(kind, number)
        return answer

    async def _promptly(
        self,
        kind: str,
        request: Coroutine[Any, Any, T],
        number: int,
        patience: Patience,
        kept: float = 0,
    ) -> T:
        """LostError if it was overtaken and no more patience is left than is to be kept."""
        task = asyncio.create_task(request)
        task.add_done_callback(mark_retrieved)
        allowed, step = patience.left, patience.step
        waited = idle = 0.0
        try:
            while True:
                began, count = monotonic(), self.counts[kind]
                overtaken = self._newest[kind] > number
                await asyncio.wait([task], timeout=step)
                passed = min(step, monotonic() - began) if task.done() else step
                waited += passed
                others = self.counts[kind] - count - task.done()
                idle = 0 if others > 0 else idle + passed
                patience.left = allowed - (waited if overtaken else idle)
                if task.done():
                    return task.result()
                if overtaken and patience.left - kept < step / 2:
                    raise LostError
                if idle and patience.over:
                    raise TimeoutError
        finally:
            task.cancel()
