"""What the broker has answered, by kind of request, and how long to wait for the rest."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeVar

from nats.js.errors import NotFoundError

from mesh.tasks import mark_retrieved

T = TypeVar("T")
Request = Callable[[], Coroutine[Any, Any, T]]

LEAVE_SECONDS, LONGEST_LEAVE_SECONDS = 3.0, 15.0
"""A server whose JetStream has not answered for this long is left for another of the cluster."""
STEPS = 5
"""A prompt request waits in steps, so that a pause of this process counts as one step at most."""
AGAIN_STEPS = 2
"""The last of these, for a request that is sent again."""
NEVER_LOST, OVERTAKEN = 2**63, 0
"""Numbers of requests that no later one overtakes, and that any answer has overtaken."""


class LostError(TimeoutError):
    """A request that was sent later has been answered, and this one has not."""


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
    _leave_seconds: float = LEAVE_SECONDS

    def note(self, kind: str, number: int) -> None:
        """Counts the request of that number as carried out.

        A refusal does not count: it does not wait for the replicas, so it overtakes writes that
        do, and a leader that was cut off refuses, too.
        """
        self.counts[kind] += 1
        self._newest[kind] = max(number, self._newest[kind])
        self._failing_since.pop(kind, None)
        if kind == self._left_for:
            self._left_for, self._leave_seconds = "", LEAVE_SECONDS

    def must_leave(self, kind: str, began: float) -> bool:
        """Notes a request without an answer; True if this server must be left now.

        Waits longer each time, until that kind is answered: another server may be no better.
        """
        now, since = monotonic(), self._failing_since.setdefault(kind, began)
        if now - since < self._leave_seconds or began < self._changed_at:
            return False
        self._failing_since.clear()
        self._changed_at, self._left_for = now, kind
        self._leave_seconds = min(2 * self._leave_seconds, LONGEST_LEAVE_SECONDS)
        return True

    async def to(
        self, kind: str, request: Request[T], seconds: float | None, *, repeatable: bool
    ) -> T:
        """Sends a request and waits for its answer: as long as it takes without `seconds`.

        With it, TimeoutError after that long without any answer of this kind, or if the request
        was lost. A lost request that is repeatable is sent again once before that. A slow store
        that answers in order is waited for.
        """
        number = self._next()
        sent = self._noted(kind, request, number)
        if seconds is None:
            return await sent
        step = seconds / STEPS
        try:
            steps = STEPS - AGAIN_STEPS if repeatable else STEPS
            return await self._promptly(kind, sent, number, step, steps)
        except LostError:
            if not repeatable:
                raise
        sent = self._noted(kind, request, self._next())
        return await self._promptly(kind, sent, OVERTAKEN, step, AGAIN_STEPS)

    async def while_moving(self, kind: str, request: Request[T], seconds: float | None) -> T:
        """Waits for what depends on later requests of this kind; TimeoutError as above."""
        if seconds is None:
            return await request()
        return await self._promptly(kind, request(), NEVER_LOST, seconds / STEPS)

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
        step: float,
        steps: int = STEPS,
    ) -> T:
        """LostError after so many steps if it was overtaken."""
        task = asyncio.create_task(request)
        task.add_done_callback(mark_retrieved)
        waited = idle = 0
        try:
            while True:
                count, overtaken = self.counts[kind], self._newest[kind] > number
                await asyncio.wait([task], timeout=step)
                if task.done():
                    return task.result()
                waited += 1
                idle = idle + 1 if self.counts[kind] == count else 0
                if overtaken and waited >= steps:
                    raise LostError
                if idle >= STEPS:
                    raise TimeoutError
        finally:
            task.cancel()
