"""The wake-up signal of event streams."""

import asyncio

from gateway.sse.buffer import Wakeup
from tests.support.polling import until

LONG = 300.0


async def test_a_wait_ends_when_it_is_woken_and_not_by_a_signal_before_it() -> None:
    awake = Wakeup()
    awake.wake()
    waiting = asyncio.create_task(awake.wait(LONG))
    await asyncio.sleep(0)
    assert not waiting.done()

    awake.wake()
    awake.wake()

    assert await waiting
    awake.close()


async def test_a_wait_that_is_not_woken_ends_after_its_own_time() -> None:
    awake = Wakeup()
    clock = asyncio.get_running_loop().time
    assert not await awake.wait(0.01)
    woken = asyncio.create_task(awake.wait(0.05))
    await asyncio.sleep(0)
    awake.wake()
    assert await woken

    began = clock()
    assert not await awake.wait(0.2)  # the timer of the wait before it fires meanwhile

    assert clock() - began >= 0.2
    awake.close()


async def test_closing_ends_the_wait_and_leaves_no_timer() -> None:
    awake = Wakeup()
    waiting = asyncio.create_task(awake.wait(LONG))
    await until(lambda: awake._timer is not None)

    awake.close()

    assert await waiting
    assert awake._timer is not None
    assert awake._timer.cancelled()
