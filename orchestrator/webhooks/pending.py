"""Counts the webhooks of each owner that wait for delivery."""

from collections import Counter

from google.protobuf.message import DecodeError

from mesh.bus import Bus, storing
from mesh.tasks import SingleFlight
from ytcaption.v1 import webhook_pb2


class PendingWebhooks:
    """Reads each item once, and asks afterwards only which of them are still there."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._stream = bus.names.webhooks_stream
        self._sequence = 0
        self._owners: dict[str, str] = {}
        """The owner of each item, by its subject."""
        self._counts: Counter[str] = Counter()
        self._catch_up = SingleFlight(self._read)

    async def of(self, owner: str) -> int:
        """The number of this owner's items that were stored before the call."""
        await self._catch_up()
        return self._counts[owner]

    async def _read(self) -> None:
        everything = self._bus.names.webhook("*")
        async for stored in self._bus.read(self._stream, everything, self._sequence):
            try:
                owner = webhook_pb2.WebhookItem.FromString(stored.data).owner
            except DecodeError:  # the sender removes it
                owner = ""
            self._owners[stored.subject] = owner
            self._sequence = stored.sequence
        left: set[str] = set()
        if self._owners:
            async with storing():
                info = await self._bus.jetstream.stream_info(
                    self._stream, subjects_filter=everything
                )
            left = set(info.state.subjects or {})
        self._owners = {subject: one for subject, one in self._owners.items() if subject in left}
        self._counts = Counter(self._owners.values())
