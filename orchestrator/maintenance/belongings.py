"""What among stored messages belongs to one owner: the same for its export and its erasure."""

import json
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from google.protobuf.message import DecodeError

from mesh.bus import Bus, Stored
from mesh.stores import owner_tag
from ytcaption.v1 import admin_service_pb2, job_pb2, webhook_pb2

Owned: TypeAlias = webhook_pb2.WebhookItem | admin_service_pb2.WebhookDelivery | job_pb2.DeadLetter
"""Messages that name their owner, and the job or collection they are about."""


@dataclass(frozen=True, slots=True)
class Belongings:
    """What an owner has; the ids are those of its jobs and collections."""

    owner: str
    ids: AbstractSet[str]

    def include(self, found: Owned) -> bool:
        """Whether a message names the owner, or something of the owner's."""
        names_owner = bool(self.owner) and found.owner == self.owner
        return names_owner or not self.ids.isdisjoint({found.job_id, found.collection_id})

    def include_stored(self, kind: Callable[[bytes], Owned], stored: Stored) -> bool:
        """The same of a message as it is stored; an unreadable one may have the owner's tag."""
        if self._is_tagged(stored):
            return True
        with suppress(DecodeError):
            return self.include(kind(stored.data))
        return False

    def include_published(self, stored: Stored) -> bool:
        """Whether a published event is about something of the owner's."""
        return self._is_tagged(stored) or not self.ids.isdisjoint(_published_ids(stored.data))

    def _is_tagged(self, stored: Stored) -> bool:
        return bool(self.owner) and stored.tag == owner_tag(self.owner)


async def messages_of(bus: Bus, belongings: Belongings) -> dict[str, dict[str, list[int]]]:
    """Sequences of what else is the owner's, by what it counts as and by stream."""
    names = bus.names
    included = belongings.include_stored

    async def of(stream: str, subject: str, is_owners: Callable[[Stored], bool]) -> list[int]:
        found = bus.read(stream, subject)
        return [stored.sequence async for stored in found if is_owners(stored)]

    return {
        "webhooks": {
            names.webhooks_stream: await of(
                names.webhooks_stream,
                names.webhook("*"),
                partial(included, webhook_pb2.WebhookItem.FromString),
            ),
            names.deliveries_stream: await of(
                names.deliveries_stream,
                names.delivery("*"),
                partial(belongings.include_stored, admin_service_pb2.WebhookDelivery.FromString),
            ),
        },
        "dead_letters": {
            names.dead_letter_stream: await of(
                names.dead_letter_stream,
                names.dead_letter("*"),
                partial(included, job_pb2.DeadLetter.FromString),
            )
        },
        "published_events": {
            names.outbox_stream: await of(
                names.outbox_stream,
                names.outgoing("*"),
                belongings.include_published,
            )
        },
    }


def _published_ids(data: bytes) -> set[str]:
    """The ids of the job and the collection that a published event is about."""
    try:
        payload = json.loads(data)["payload"]
    except (ValueError, KeyError, TypeError):
        return set()
    found = {payload.get("job_id"), payload.get("collection_id")} if payload else set()
    return {one for one in found if one}
