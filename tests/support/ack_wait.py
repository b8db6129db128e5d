"""Redelivery when the test says so, not when an ack wait is over."""

from mesh.bus import Bus

SHORT_SECONDS = 0.1
LIMIT_SECONDS = 60


async def set_ack_wait(bus: Bus, stream: str, consumer: str, seconds: float) -> None:
    """Changes the ack wait, also of what is delivered already."""
    config = (await bus.jetstream.consumer_info(stream, consumer)).config
    config.ack_wait = seconds
    await bus.jetstream.add_consumer(stream, config)


async def give_back_for_the_dead(bus: Bus, stream: str, consumer: str) -> None:
    """Returns a killed worker's one item to the queue, as the end of its ack wait would."""
    await set_ack_wait(bus, stream, consumer, SHORT_SECONDS)
    pulling = await bus.jetstream.pull_subscribe_bind(consumer, stream=stream)
    (item,) = await pulling.fetch(1, timeout=LIMIT_SECONDS)
    await item.nak()
    await pulling.unsubscribe()
