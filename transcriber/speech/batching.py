"""Runs the windows of all recordings on a few threads that share one copy of the weights.

A window is a generator of steps: it yields what the model must compute and receives the result.
Encoding costs the same for each window, so windows are encoded one by one, which needs the least
memory. Generating reads all weights for every token, so windows that may be generated together are.
What a window gets does not depend on the others of its batch.
"""

import threading
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, TypeVar

from transcriber.decoder import AbandonedError, wait_for

MAX_BATCH = 4
"""Windows generated together. A fifth gains little on a processor and costs 37 MB (base)."""

MAX_GENERATED = 3
"""Windows generated at once for each thread: generating needs the most memory, so while one thread
generates a full batch, another one rather encodes."""

IDLE_SECONDS = 5.0
"""After so long without a window, memory is given back."""

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Alone:
    """A step that is computed for one window: an encoding, a detection, an alignment."""

    compute: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Together:
    """A step that is computed for several windows at once."""

    key: Hashable
    """Steps with equal keys may share a batch."""

    argument: Any


Step = Alone | Together
Steps = Generator[Step, Any, ResultT]


@dataclass(slots=True, eq=False)
class _Task(Generic[ResultT]):
    steps: Steps[ResultT]
    is_urgent: bool
    order: int
    abandoned: Callable[[], bool]
    result: Future[ResultT] = field(default_factory=Future)
    step: Step | None = None
    """None before the first step and while one is computed."""

    @property
    def rank(self) -> tuple[bool, int]:
        """Sort key: the task with the smallest rank is next."""
        return not self.is_urgent, self.order


class Batcher:
    """Threads that take the next step of any window."""

    def __init__(
        self,
        compute_together: Callable[[Sequence[Any]], Sequence[Any]],
        workers: int,
        max_batch: int = MAX_BATCH,
        when_idle: Callable[[], None] = lambda: None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._compute_together = compute_together
        self._max_batch = max_batch
        self._max_generated = max(max_batch, MAX_GENERATED * workers)
        self._when_idle = when_idle
        self._idle_seconds = idle_seconds
        self._is_tidy = True
        """Whether nothing was computed since it was last idle."""
        self._tasks: list[_Task[Any]] = []
        """Those that wait for a thread."""
        self._running: list[_Task[Any]] = []
        self._changed = threading.Condition()
        self._order = count()
        self._is_closed = False
        for number in range(workers):
            threading.Thread(target=self._work, name=f"model-{number}", daemon=True).start()

    @property
    def waiting(self) -> int:
        """Windows that wait for a thread."""
        return len(self._tasks)

    def run(
        self, steps: Steps[ResultT], abandoned: Callable[[], bool], *, is_urgent: bool
    ) -> ResultT:
        """The result of a window; raises AbandonedError once the caller no longer needs it."""
        task = _Task(steps, is_urgent, next(self._order), abandoned)
        with self._changed:
            self._tasks.append(task)
            self._changed.notify()
        return wait_for(task.result, abandoned)

    def close(self) -> None:
        """Ends the threads after their current step."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not (chosen := self._choose()) and not self._is_closed:
                    self._wait()
                if self._is_closed:
                    return
                self._tasks = [task for task in self._tasks if task not in chosen]
                self._running += chosen
                self._is_tidy = False
            answered = list(self._compute(chosen))
            with self._changed:
                self._running = [task for task in self._running if task not in chosen]
                self._changed.notify()  # another thread may have waited for room
            for task, answer in answered:
                self._advance(task, answer)

    def _wait(self) -> None:
        in_time = self._changed.wait(None if self._is_tidy else self._idle_seconds)
        if not (in_time or self._is_tidy or self._tasks or self._running):
            self._is_tidy = True
            self._when_idle()

    def _choose(self) -> list[_Task[Any]]:
        """For one thread: an urgent task, a full batch, one to go on alone, or what is left."""
        ranked = sorted(self._tasks, key=lambda task: task.rank)
        alone = [task for task in ranked if not isinstance(task.step, Together)]
        batches = list(self._batches(ranked))
        full = [batch for batch in batches if len(batch) == self._max_batch]
        urgent = [one for one in ([*alone[:1]], *batches) if one and one[0].is_urgent]
        return next(iter([*urgent, *full, *([alone[:1]] if alone else []), *batches]), [])

    def _batches(self, ranked: Sequence[_Task[Any]]) -> Iterator[list[_Task[Any]]]:
        """Tasks that can be computed together, by the rank of their first."""
        groups: dict[Hashable, list[_Task[Any]]] = {}
        for task in ranked:
            if isinstance(task.step, Together):
                groups.setdefault(task.step.key, []).append(task)
        generated = sum(isinstance(task.step, Together) for task in self._running)
        room = self._max_generated - generated
        for group in groups.values():
            size = self._max_batch if group[0].is_urgent else min(self._max_batch, room)
            if size > 0:
                yield group[:size]

    def _compute(self, tasks: Sequence[_Task[Any]]) -> Iterator[tuple[_Task[Any], Any]]:
        """Each task with the answer to its step; an error goes to all of them."""
        first = tasks[0].step
        try:
            if isinstance(first, Together):
                wanted = [task.step.argument for task in tasks if isinstance(task.step, Together)]
                answers = self._compute_together(wanted)
            else:
                answers = [first.compute() if first and not tasks[0].abandoned() else None]
        except Exception as error:  # noqa: BLE001 - raised again in `run`
            for task in tasks:
                task.result.set_exception(error)
        else:
            yield from zip(tasks, answers, strict=True)

    def _advance(self, task: _Task[Any], answer: Any) -> None:
        """Gives the answer to the window, and queues what it needs next."""
        task.step = None
        if task.abandoned():
            task.steps.close()
            task.result.set_exception(AbandonedError())
            return
        try:
            task.step = task.steps.send(answer)
        except StopIteration as ended:
            task.result.set_result(ended.value)
        except Exception as error:  # noqa: BLE001 - raised again in `run`
            task.result.set_exception(error)
        else:
            with self._changed:
                self._tasks.append(task)
                self._changed.notify()
