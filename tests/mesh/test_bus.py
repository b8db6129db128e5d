"""A connection to the broker outlives what callers do to it."""

import asyncio
from contextlib import suppress
from pathlib import Path

from mesh.bus import Bus
from mesh.stores import Limits
from tests.support.broker import running_broker


async def test_a_cancelled_flush_does_not_end_the_reading_of_answers(tmp_path: Path) -> None:
    limits = Limits(storage_bytes=64 * 1024**2)
    async with (
        running_broker(tmp_path) as broker,
        Bus.connected(
            broker.url, credentials=broker.credentials, limits=limits, answer_seconds=60
        ) as bus,
    ):
        flushing = asyncio.create_task(bus.client.flush())
        await asyncio.sleep(0)  # the ping is sent, the pong is not read yet
        flushing.cancel()
        with suppress(asyncio.CancelledError):
            await flushing

        await bus.client.flush(timeout=60)
        assert await bus.jetstream.account_info()
