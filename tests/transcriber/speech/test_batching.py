"""Batches of windows: what goes first, what goes together, what each window gets."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.polling import until
from transcriber.decoder import AbandonedError
from transcriber.speech.batching import MAX_GENERATED, Alone, Batcher, Steps, Together


class Model:
    """Records its batches and the windows it ended, in order."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.done: list[str] = []

    def together(self, arguments: Sequence[Any]) -> Sequence[Any]:
        self.batches.append(list(arguments))
        return [argument * 10 for argument in arguments]

    def window(self, name: str, number: int, key: str = "same") -> Steps[int]:
        yield Alone(lambda: None)
        answer = yield Together(key, number)
        self.done.append(name)
        return int(answer)


def never() -> bool:
    return False


@contextmanager
def batcher(model: Model, max_batch: int = 3) -> Iterator[Batcher]:
    made = Batcher(model.together, workers=1, max_batch=max_batch)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def held(made: Batcher) -> Iterator[None]:
    """Keeps the only thread busy."""
    busy, gate = threading.Event(), threading.Event()

    def wait() -> None:
        busy.set()
        gate.wait()

    def plug() -> Steps[None]:
        yield Alone(wait)

    holding = threading.Thread(target=made.run, args=(plug(), never), kwargs={"is_urgent": True})
    holding.start()
    busy.wait(60)
    try:
        yield
    finally:
        gate.set()
        holding.join(60)


def run_all(
    model: Model, made: Batcher, windows: Sequence[tuple[str, int, str, bool]]
) -> dict[str, int]:
    """Queues all windows in this order before the first of them begins."""
    results: dict[str, int] = {}

    def run(name: str, number: int, key: str, is_urgent: bool) -> None:
        steps = model.window(name, number, key)
        results[name] = made.run(steps, never, is_urgent=is_urgent)

    threads = [threading.Thread(target=run, args=window) for window in windows]
    with held(made):
        for count, thread in enumerate(threads, 1):
            thread.start()
            asyncio.run(until(lambda count=count: made.waiting == count))
    for thread in threads:
        thread.join(60)
    return results


def test_windows_with_equal_keys_are_computed_together_up_to_the_limit() -> None:
    model = Model()
    with batcher(model) as made:
        results = run_all(model, made, [(f"w{n}", n, "same", False) for n in range(7)])

    assert results == {f"w{n}": 10 * n for n in range(7)}
    assert sorted(map(len, model.batches)) == [1, 3, 3]


def test_windows_with_other_keys_are_computed_apart() -> None:
    model = Model()
    with batcher(model) as made:
        run_all(model, made, [("a", 1, "x", False), ("b", 2, "y", False), ("c", 3, "x", False)])

    assert sorted(map(sorted, model.batches)) == [[1, 3], [2]]


def test_an_urgent_window_ends_before_those_that_came_earlier() -> None:
    model = Model()
    windows = [(f"w{n}", n, "same", False) for n in range(6)]
    with batcher(model) as made:
        run_all(model, made, [*windows, ("urgent", 9, "other", True)])

    assert model.done[0] == "urgent"


def test_an_abandoned_window_takes_no_place_in_a_batch() -> None:
    model = Model()
    with batcher(model) as made:
        with held(made), pytest.raises(AbandonedError):
            made.run(model.window("gone", 1), lambda: True, is_urgent=False)

        assert made.run(model.window("next", 2), never, is_urgent=False) == 20
    assert model.batches == [[2]]


def test_an_error_reaches_every_window_of_its_batch_and_no_other() -> None:
    model = Model()

    def fail(arguments: Sequence[Any]) -> Sequence[Any]:
        if 1 in arguments:
            raise RuntimeError("no memory")
        return arguments

    model.together = fail  # type: ignore[method-assign]
    with batcher(model) as made:
        with pytest.raises(RuntimeError, match="no memory"):
            made.run(model.window("bad", 1), never, is_urgent=False)
        assert made.run(model.window("good", 2), never, is_urgent=False) == 2


def test_a_second_thread_generates_no_more_windows_than_there_is_room_for() -> None:
    model, running, most, lock = Model(), 0, 0, threading.Lock()
    ready, gate = threading.Barrier(2, timeout=60), threading.Event()

    def together(arguments: Sequence[Any]) -> Sequence[Any]:
        nonlocal running, most
        with lock:
            running += len(arguments)
            most = max(most, running)
        if not gate.is_set():
            ready.wait()  # both threads generate
            gate.set()
        with lock:
            running -= len(arguments)
        return arguments

    made = Batcher(together, workers=2, max_batch=4)
    names = [(f"w{n}", n) for n in range(16)]
    threads = [
        threading.Thread(
            target=made.run, args=(model.window(*name), never), kwargs={"is_urgent": False}
        )
        for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    made.close()

    assert len(model.done) == 16
    assert most <= 2 * MAX_GENERATED


def test_it_frees_memory_once_after_the_last_window() -> None:
    model, freed = Model(), threading.Semaphore(0)
    made = Batcher(model.together, workers=2, when_idle=freed.release, idle_seconds=0.01)

    for number in range(2):
        made.run(model.window("only", number), never, is_urgent=False)
        assert freed.acquire(timeout=60)
    made.close()

    assert not freed.acquire(blocking=False)
