"""Background work: bounded concurrency, and work that outlives its caller."""

import asyncio

import pytest
from structlog.testing import capture_logs

from mesh.tasks import map_concurrently, uninterrupted
from tests.support.polling import until
from tests.support.unretrieved import Unretrieved


async def test_at_most_the_limit_of_items_runs_at_once_and_results_keep_their_order() -> None:
    running, most = 0, 0

    async def double(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01 * (number % 3))
        running -= 1
        return 2 * number

    assert await map_concurrently(double, range(10), at_once=3) == list(range(0, 20, 2))
    assert most == 3


async def test_work_goes_on_without_its_cancelled_caller_and_its_failure_is_logged(
    unretrieved: Unretrieved,
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def fail() -> None:
        begun.set()
        await go_on.wait()
        raise RuntimeError("no caller is left")

    caller = asyncio.create_task(uninterrupted(fail()))
    await begun.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    with capture_logs() as lines:
        go_on.set()
        await until(lambda: bool(lines))

    assert [line["error"] for line in lines] == ["RuntimeError('no caller is left')"]
    assert unretrieved() == []


async def test_the_caller_of_uninterrupted_work_gets_its_result_or_its_failure() -> None:
    async def halve(number: int) -> int:
        if number % 2:
            raise ValueError(number)
        return number // 2

    assert await uninterrupted(halve(4)) == 2
    with pytest.raises(ValueError, match="3"):
        await uninterrupted(halve(3))
