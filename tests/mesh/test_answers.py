"""Prompt requests: lost ones are sent again or fail, slow ones are waited for."""

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest
from nats.js.errors import APIError

from mesh.answers import (
    AGAIN_STEPS,
    LEAVE_SECONDS,
    LONGEST_LEAVE_SECONDS,
    STEPS,
    Answers,
    LostError,
    prompt,
)
from tests.support.steps import Steps, settled

KIND = "write some.stream"
SECONDS = 1.25


class Store:
    """Answers each request when the test says so."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.requests: list[asyncio.Future[str]] = []

    async def send(self, prompted: bool = False, *, repeatable: bool = False) -> Any:
        """A request that the test answers, prompt or not; returns once it is sent."""

        async def request() -> str:
            self.requests.append(asyncio.get_running_loop().create_future())
            return await self.requests[-1]

        with prompt(SECONDS) if prompted else nullcontext():
            to = self._answers.to(KIND, request, repeatable=repeatable)
            task = asyncio.create_task(to)
        await settled()
        return task


class Clock:
    """The time as the test says it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("mesh.answers.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch, SECONDS)


@pytest.fixture
def store() -> Store:
    return Store(Answers())


async def _lose_first(store: Store, steps: Steps, *, repeatable: bool) -> Any:
    prompt = await store.send(prompted=True, repeatable=repeatable)
    await store.send()
    store.requests[1].set_result("later")
    await settled()
    await steps.pass_(STEPS - AGAIN_STEPS if repeatable else STEPS)
    return prompt


async def test_a_lost_request_that_may_be_repeated_is_sent_again(
    store: Store, steps: Steps
) -> None:
    prompt = await _lose_first(store, steps, repeatable=True)
    store.requests[2].set_result("again")

    assert await prompt == "again"


async def test_a_lost_request_is_sent_again_only_once_and_fails_in_the_same_time(
    store: Store, steps: Steps
) -> None:
    prompt = await _lose_first(store, steps, repeatable=True)
    await steps.pass_(AGAIN_STEPS)

    with pytest.raises(TimeoutError):
        await prompt
    assert len(store.requests) == 3


async def test_a_lost_request_that_may_not_be_repeated_fails(store: Store, steps: Steps) -> None:
    prompt = await _lose_first(store, steps, repeatable=False)

    with pytest.raises(LostError):
        await prompt
    assert len(store.requests) == 2


async def test_a_slow_store_that_answers_in_order_is_waited_for(store: Store, steps: Steps) -> None:
    for _ in range(3 * STEPS):
        await store.send()
    prompt = await store.send(prompted=True)
    for earlier in store.requests[:-1]:
        earlier.set_result("in order")
        await settled()
        await steps.pass_()
    store.requests[-1].set_result("at last")

    assert await prompt == "at last"


async def test_a_store_that_answers_nothing_fails_a_request(store: Store, steps: Steps) -> None:
    prompt = await store.send(prompted=True, repeatable=True)
    await steps.pass_(STEPS)

    with pytest.raises(TimeoutError):
        await prompt
    assert len(store.requests) == 1


async def test_refusals_do_not_count_as_answers(store: Store, steps: Steps) -> None:
    """They do not wait for replicas, so they overtake writes, also at a leader without any."""
    prompt = await store.send(prompted=True, repeatable=True)
    for _ in range(STEPS):
        refused = await store.send()
        store.requests[-1].set_exception(APIError(code=400, err_code=10071))
        with pytest.raises(APIError):
            await refused
        await steps.pass_()

    with pytest.raises(TimeoutError):
        await prompt
    assert len(store.requests) == 1 + STEPS


async def test_what_depends_on_later_requests_is_waited_for_while_they_are_answered(
    store: Store, steps: Steps
) -> None:
    proof = asyncio.get_running_loop().create_future()

    async def shared() -> Any:
        return await proof

    with prompt(SECONDS):
        waiting = asyncio.create_task(store._answers.while_moving(KIND, shared))
    await settled()
    for _ in range(3 * STEPS):
        await store.send()
        store.requests[-1].set_result("later")
        await settled()
        await steps.pass_()
    proof.set_result("proved")

    assert await waiting == "proved"


async def test_requests_of_one_caller_share_its_patience(
    store: Store, steps: Steps, clock: Clock
) -> None:
    """The times of slow requests do not add up: together they wait as long as one."""
    with prompt(SECONDS):
        first = await store.send(prompted=True)
        await steps.pass_(STEPS - 1)
        store.requests[0].set_result("late")
        assert await first == "late"

        second = await store.send(prompted=True, repeatable=True)
        await steps.pass_()

        with pytest.raises(TimeoutError):
            await second
    assert len(store.requests) == 2


async def test_a_caller_that_lost_a_request_has_less_time_for_the_next(
    store: Store, steps: Steps, clock: Clock
) -> None:
    with prompt(SECONDS):
        first = await _lose_first(store, steps, repeatable=True)
        store.requests[2].set_result("again")
        assert await first == "again"

        second = await store.send(prompted=True)
        await steps.pass_(AGAIN_STEPS)

        with pytest.raises(TimeoutError):
            await second


async def test_answers_that_others_get_use_up_no_patience(
    store: Store, steps: Steps, clock: Clock
) -> None:
    with prompt(SECONDS):
        for _ in range(3):
            await store.send()
            asked = await store.send(prompted=True)
            await steps.pass_(STEPS - 1)
            store.requests[-2].set_result("of another caller")
            await steps.pass_()
            store.requests[-1].set_result("in order")
            assert await asked == "in order"


def _stays(answers: Answers, clock: Clock, servers: int = 3) -> float:
    """Seconds without an answer until the present server is left."""
    began = clock.now
    while not answers.must_leave(KIND, clock.now, servers):
        clock.now += 0.25
        assert clock.now - began < 60
    return clock.now - began


def test_every_server_is_tried_before_any_is_given_more_time(clock: Clock) -> None:
    answers = Answers()

    first_round = [_stays(answers, clock) for _ in range(3)]
    later = [_stays(answers, clock) for _ in range(9)]

    assert first_round == [LEAVE_SECONDS] * 3
    assert max(later) == LONGEST_LEAVE_SECONDS


def test_an_answer_ends_the_longer_waits(clock: Clock) -> None:
    answers = Answers()
    for _ in range(9):
        _stays(answers, clock)
    answers.note(KIND, 1)

    assert _stays(answers, clock) == LEAVE_SECONDS


def test_the_only_server_is_never_left(clock: Clock) -> None:
    answers = Answers()
    began = clock.now
    clock.now += 100 * LEAVE_SECONDS

    assert not answers.must_leave(KIND, began, 1)
