"""A delivery that is cancelled goes back to the queue before its worker has stopped."""

import asyncio
from typing import Any, cast

import pytest
from nats.aio.msg import Msg

from mesh.tasks import stop
from orchestrator.queue import consumers
from tests.support.polling import until


class SlowDelivery:
    """A delivery whose nak reaches the broker only when the test says so."""

    subject = "work.one"

    def __init__(self) -> None:
        self.reach_broker = asyncio.Event()
        self.given_back = False

    async def nak(self, **_: Any) -> None:
        await self.reach_broker.wait()
        self.given_back = True


async def _handling(delivery: SlowDelivery) -> "asyncio.Task[float | None]":
    """A worker in the middle of the delivery."""
    began = asyncio.Event()

    async def work() -> None:
        began.set()
        await asyncio.Event().wait()

    handling = asyncio.create_task(
        consumers.handle_delivery(cast("Msg", delivery), work, retry_after=lambda *_: None)
    )
    await began.wait()
    return handling


async def test_a_worker_that_stops_waits_until_its_item_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumers, "GIVE_BACK_SECONDS", 60)
    delivery = SlowDelivery()
    handling = await _handling(delivery)
    stopping = asyncio.create_task(stop(handling))

    await until(lambda: handling.cancelling() > 1)  # `stop` asks again and again
    assert not handling.done()
    delivery.reach_broker.set()
    await stopping

    assert handling.cancelled()
    assert delivery.given_back


async def test_a_broker_that_does_not_take_the_item_does_not_hold_up_a_stop() -> None:
    delivery = SlowDelivery()
    handling = await _handling(delivery)

    async with asyncio.timeout(60):
        await stop(handling)

    assert handling.cancelled()
    assert not delivery.given_back
