"""An orchestrator that may send to loopback, and somebody who listens there."""

from collections.abc import AsyncIterator

import pytest

from tests.orchestrator.webhooks.receiver import Receiver, receiving


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as running:
        yield running
