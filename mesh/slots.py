"""Slots: how many calls of a service compute at once. A call has one only while its bytes flow."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Self, TypeVar

EventT = TypeVar("EventT")

IDLE_SECONDS = 5.0
"""A call that gets no bytes for this long gives its slot back."""
REPORT_SECONDS = 5.0
"""A call that waits for a slot says so this often."""


class Slot:
    """The claim of one call or job to one of the slots; released for good when its block ends."""

    def __init__(self, slots: asyncio.Semaphore, *, held: bool = False) -> None:
        self._slots = slots
        self._held = held
        self._ended = False
        self.waiting = False
        """Whether a slot is being waited for just now."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self.release()

    async def take(self) -> None:
        """Waits for a slot, unless it is held already."""
        if self._held:
            return
        self.waiting = True
        try:
            await self._slots.acquire()
        finally:
            self.waiting = False
        self._held = True
        if self._ended:
            self.release()

    def release(self) -> None:
        """Lets another have it, until it is taken again."""
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
            if chunk:
                await self.take()
            yield chunk

    async def reporting(
        self, events: AsyncGenerator[EventT, None], waiting: EventT
    ) -> AsyncGenerator[EventT, None]:
        """The same events, and `waiting` now and then while the slot is waited for."""
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


async def _cancel(coming: "asyncio.Future[EventT]") -> None:
    coming.cancel()
    await asyncio.gather(coming, return_exceptions=True)


async def in_slot(
    slots: asyncio.Semaphore, work: Callable[[Slot], AsyncGenerator[EventT, None]], waiting: EventT
) -> AsyncGenerator[EventT, None]:
    """The events of a call that takes a slot when it needs one; `waiting` while it has to wait."""
    with Slot(slots) as slot:
        async with aclosing(slot.reporting(work(slot), waiting)) as events:
            async for event in events:
                yield event
