"""Finds collections that are not settled but that nobody keeps going."""

from structlog import get_logger

from orchestrator.collections.queue import CollectionQueue
from orchestrator.collections.shelf import CollectionShelf
from orchestrator.patrol import patrol

log = get_logger(__name__)

EVERY_SECONDS = 30.0


class CollectionRescue:
    """The same net as that of jobs."""

    def __init__(self, shelf: CollectionShelf, queue: CollectionQueue) -> None:
        self._shelf = shelf
        self._queue = queue

    async def keep_looking(self) -> None:
        """Looks now and then until cancelled."""
        await patrol(self.look, EVERY_SECONDS, "lost collections")

    async def look(self) -> None:
        """Looks once. Records first: an item goes only after its record says settled."""
        unsettled = await self._shelf.unsettled()
        if unsettled:
            for collection_id in unsettled - await self._queue.ids():
                await self._queue.put(collection_id)
                log.warning("a collection had no item; it has one again", id=collection_id)
