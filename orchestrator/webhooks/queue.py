"""The queue of webhooks: at most one item an event, until somebody took it or it was given up."""

from contextlib import suppress

from google.protobuf.message import DecodeError
from nats.js.errors import NotFoundError

from mesh.bus import Bus, storing
from mesh.errors import LimitExceededError
from orchestrator.queue import is_there_already
from orchestrator.webhooks.items import KINDS, kind_of, told_id
from ytcaption.v1 import event_pb2, webhook_pb2


async def put_item(bus: Bus, item: webhook_pb2.WebhookItem) -> bool:
    """Stores the item; False if its event has one already."""
    # A queue forgets the id when the broker restarts. Then the log says what was done.
    headers = {"Nats-Msg-Id": f"{item.event_id}.{item.attempts}"}
    try:
        await bus.publish(bus.names.webhook(item.event_id), item.SerializeToString(), headers)
    except LimitExceededError as error:
        if not is_there_already(error):
            raise
        return False
    return True


async def put_again(bus: Bus, item: webhook_pb2.WebhookItem) -> None:
    """Stores the item of a replay; one that was given up but not yet taken out makes room."""
    stream, subject = bus.names.webhooks_stream, bus.names.webhook(item.event_id)
    while not await put_item(bus, item):
        async with storing():
            with suppress(NotFoundError):
                there = await bus.jetstream.get_last_msg(stream, subject)
                found = webhook_pb2.WebhookItem.FromString(there.data or b"")
                if found.attempts == item.attempts:
                    return  # somebody else replays it too
                await bus.jetstream.purge_stream(stream, seq=(there.seq or 0) + 1, subject=subject)


async def is_story_there(bus: Bus, item: webhook_pb2.WebhookItem) -> bool:
    """Whether what it tells of has not been deleted."""
    subject = bus.names.event(told_id(item), kind_of(item))
    async with storing():
        try:
            await bus.jetstream.get_last_msg(bus.names.events_stream, subject)
        except NotFoundError:
            return False
    return True


async def forget_webhooks(bus: Bus, told: str) -> None:
    """Removes every webhook of a job or collection; to be called while its story is there."""
    names = bus.names
    for kind in KINDS:
        async for stored in bus.read(names.events_stream, names.event(told, kind)):
            with suppress(DecodeError):
                await forget_webhook(bus, event_pb2.Event.FromString(stored.data).event_id)


async def forget_webhook(bus: Bus, event_id: str) -> None:
    """Removes the item, its delivery log and its dead letter."""
    names = bus.names
    where = {
        names.webhooks_stream: names.webhook(event_id),
        names.deliveries_stream: names.delivery(event_id),
        names.dead_letter_stream: names.dead_letter(event_id),
    }
    async with storing():
        for stream, subject in where.items():
            await bus.jetstream.purge_stream(stream, subject=subject)
