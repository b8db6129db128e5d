"""Steps of prompt requests that pass when the test says so, however fast the machine is."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from mesh.answers import STEPS

TURNS = 10
"""Of the event loop, until everything that can go on has."""


async def settled() -> None:
    """Lets everything go on that can."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


class Steps:
    """The running steps of prompt requests of one patience; choose one that nothing else uses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self._ends: list[asyncio.Future[None]] = []
        wait = asyncio.wait

        async def scripted(tasks: Iterable[Any], **how: Any) -> Any:
            if how.get("timeout") != seconds / STEPS:
                return await wait(list(tasks), **how)
            end = asyncio.get_running_loop().create_future()
            self._ends.append(end)
            return await wait([*tasks, end], return_when=asyncio.FIRST_COMPLETED)

        monkeypatch.setattr(asyncio, "wait", scripted)

    async def pass_(self, count: int = 1) -> None:
        """Ends the present step, and those that follow."""
        for _ in range(count):
            ends, self._ends = self._ends, []
            for end in ends:
                end.set_result(None)
            await settled()
