"""An orchestrator that may send to loopback, and somebody who listens there."""

from collections.abc import AsyncIterator

import pytest

from tests.orchestrator.webhooks.deliveries import PATIENCE_SECONDS
from tests.orchestrator.webhooks.receiver import Receiver, receiving
from tests.support.timeouts import Timeouts


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as running:
        yield running


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Timeouts:
    """How long a receiver is waited for."""
    return Timeouts(monkeypatch, PATIENCE_SECONDS)
