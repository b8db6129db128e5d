"""Timeouts that pass when the test says so, however fast or slow the machine is."""

import asyncio
from contextlib import suppress

import pytest


class Timeouts:
    """The running `asyncio.timeout`s of one length; choose one that nothing else uses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.seconds = seconds
        self._begun: list[asyncio.Timeout] = []
        timeout = asyncio.timeout

        def recorded(delay: float | None) -> asyncio.Timeout:
            begun = timeout(delay)
            if delay == seconds:
                self._begun.append(begun)
            return begun

        monkeypatch.setattr(asyncio, "timeout", recorded)

    def expire(self) -> None:
        """Ends the wait of everything that waits now."""
        now = asyncio.get_running_loop().time()
        for begun in self._begun:
            with suppress(RuntimeError):  # over already
                begun.reschedule(now)
        self._begun.clear()
