"""Prompt requests: lost ones are sent again or fail, slow ones are waited for."""

import asyncio
from typing import Any

import pytest
from nats.js.errors import APIError

from mesh.answers import AGAIN_STEPS, STEPS, Answers, LostError
from tests.support.steps import Steps, settled

KIND = "write some.stream"
SECONDS = 1.25


class Store:
    """Answers each request when the test says so."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.requests: list[asyncio.Future[str]] = []

    async def send(self, seconds: float | None = None, *, repeatable: bool = False) -> Any:
        """A request that the test answers; returns once it is sent."""

        async def request() -> str:
            self.requests.append(asyncio.get_running_loop().create_future())
            return await self.requests[-1]

        task = asyncio.create_task(self._answers.to(KIND, request, seconds, repeatable=repeatable))
        await settled()
        return task


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch, SECONDS)


@pytest.fixture
def store() -> Store:
    return Store(Answers())


async def _lose_first(store: Store, steps: Steps, *, repeatable: bool) -> Any:
    prompt = await store.send(SECONDS, repeatable=repeatable)
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
    prompt = await store.send(SECONDS)
    for earlier in store.requests[:-1]:
        earlier.set_result("in order")
        await settled()
        await steps.pass_()
    store.requests[-1].set_result("at last")

    assert await prompt == "at last"


async def test_a_store_that_answers_nothing_fails_a_request(store: Store, steps: Steps) -> None:
    prompt = await store.send(SECONDS, repeatable=True)
    await steps.pass_(STEPS)

    with pytest.raises(TimeoutError):
        await prompt
    assert len(store.requests) == 1


async def test_refusals_do_not_count_as_answers(store: Store, steps: Steps) -> None:
    """They do not wait for replicas, so they overtake writes, also at a leader without any."""
    prompt = await store.send(SECONDS, repeatable=True)
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

    waiting = asyncio.create_task(store._answers.while_moving(KIND, shared, SECONDS))
    await settled()
    for _ in range(3 * STEPS):
        await store.send()
        store.requests[-1].set_result("later")
        await settled()
        await steps.pass_()
    proof.set_result("proved")

    assert await waiting == "proved"
