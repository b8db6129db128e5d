"""Slots: how many calls of a service compute at once. A call has one only while its bytes flow."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

EventT = TypeVar("EventT")

IDLE_SECONDS = 5.0
"""A call that gets no bytes for this long gives its slot back."""
REPORT_SECONDS = 5.0
"""A call that waits for a slot says so this often."""


class Slot:
    """One call's claim to one of the slots."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._held = False
        self.waiting = False
        """Whether the call waits for a slot just now."""

    async def take(self) -> None:
        """Waits for a slot, unless the call has one."""
        if self._held:
            return
        self.waiting = True
        try:
            await self._slots.acquire()
        finally:
            self.waiting = False
        self._held = True

    def release(self) -> None:
        """Lets another call have it."""
        if self._held:
            self._held = False
            self._slots.release()

    async def while_flowing(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same chunks; takes the slot when one arrives, and gives it back while none does."""
        while True:
            coming = asyncio.ensure_future(anext(chunks, None))
            try:
                arrived, _ = await asyncio.wait({coming}, timeout=IDLE_SECONDS)
                if not arrived:
                    self.release()
                chunk = await coming
            finally:
                await _cancel(coming)
            if chunk is None:
                return
            await self.take()
            yield chunk

    async def reporting(
        self, events: AsyncGenerator[EventT, None], waiting: EventT
    ) -> AsyncGenerator[EventT, None]:
        """The same events, and `waiting` now and then while the call waits for its slot.

        The slot is released when the events end.
        """
        coming: asyncio.Future[EventT | None] | None = None
        try:
            while True:
                coming = coming or asyncio.ensure_future(anext(events, None))
                arrived, _ = await asyncio.wait({coming}, timeout=REPORT_SECONDS)
                if arrived:
                    event, coming = coming.result(), None
                    if event is None:
                        return
                    yield event
                elif self.waiting:
                    yield waiting
        finally:
            if coming is not None:
                await _cancel(coming)
            await events.aclose()
            self.release()


async def _cancel(coming: "asyncio.Future[EventT]") -> None:
    coming.cancel()
    await asyncio.gather(coming, return_exceptions=True)
