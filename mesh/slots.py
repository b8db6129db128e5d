"""Slots: how many calls of a service compute at once. A call that waits for bytes holds none."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Self, TypeVar

ItemT = TypeVar("ItemT")

IDLE_SECONDS = 5.0
"""A call that gets no bytes for this long gives its slot back."""
REPORT_SECONDS = 5.0
"""A call that waits for a slot says so this often."""


class Slot:
    """The claim of one call or job to one of the slots; released when its block ends."""

    def __init__(self, slots: asyncio.Semaphore, *, held: bool = False) -> None:
        self._slots = slots
        self._held = held
        self.waiting = False
        """Whether a slot is being waited for just now."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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

    def release(self) -> None:
        """Lets another have it, until it is taken again."""
        if self._held:
            self._held = False
            self._slots.release()

    async def while_flowing(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same chunks; gives the slot back while none come, and takes it for those that do.

        An empty chunk says that the caller has none yet, but will.
        """
        while True:
            coming = asyncio.create_task(_next(chunks))
            try:
                arrived, _ = await asyncio.wait({coming}, timeout=IDLE_SECONDS)
                if not arrived:
                    self.release()
                chunk = await coming
            finally:
                await _cancel(coming)
            if chunk == b"":
                self.release()
            else:
                await self.take()
            if chunk is None:
                return
            yield chunk


async def in_slot(
    slots: asyncio.Semaphore, work: Callable[[Slot], AsyncGenerator[ItemT, None]], waiting: ItemT
) -> AsyncGenerator[ItemT, None]:
    """The events of a call that takes a slot when it needs one; `waiting` while it has to wait."""
    coming: asyncio.Task[ItemT | None] | None = None
    with Slot(slots) as slot:
        events = work(slot)
        try:
            while True:
                coming = coming or asyncio.create_task(_next(events))
                await asyncio.wait({coming}, timeout=REPORT_SECONDS)
                if coming.done():
                    event, coming = coming.result(), None
                    if event is None:
                        return
                    yield event
                elif slot.waiting:
                    yield waiting
        finally:
            if coming is not None:
                await _cancel(coming)
            await events.aclose()


async def _next(items: AsyncIterator[ItemT]) -> ItemT | None:
    return await anext(items, None)


async def _cancel(coming: asyncio.Task[ItemT]) -> None:
    coming.cancel()
    await asyncio.gather(coming, return_exceptions=True)
