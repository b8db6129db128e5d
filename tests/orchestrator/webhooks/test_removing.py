"""Webhooks go when what they tell of goes."""

from mesh.bus import Bus
from tests.client import Client
from tests.orchestrator.conftest import Start
from tests.orchestrator.letters import letters
from tests.orchestrator.polling import until
from tests.orchestrator.traces import traces
from tests.orchestrator.webhooks.deliveries import (
    DEAD,
    ON,
    PENDING,
    deliveries,
    delivery,
    queue_is_empty,
    tell_end,
)
from tests.orchestrator.webhooks.receiver import Receiver
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import pipeline_service_pb2 as pb


async def test_a_deleted_job_takes_its_webhooks_along(
    start: Start, broker_bus: Bus, receiver: Receiver
) -> None:
    receiver.answer(500)
    async with start(**ON, webhook_backoff="600") as client:
        waiting = await client.finished((await client.create(webhook_url=receiver.url)).job_id)
        await delivery(client, PENDING, attempts=1)
        receiver.answer(410)
        dead = await client.finished((await client.create(webhook_url=receiver.url)).job_id)
        await delivery(client, DEAD, job_id=dead.job_id)
        await until(lambda: _has_letter(client))
        for job in (waiting, dead):
            await client.pipeline.DeleteJob(pb.DeleteJobRequest(job_id=job.job_id))

        assert await traces(broker_bus, waiting.job_id) == []
        assert await traces(broker_bus, dead.job_id) == []
        assert await deliveries(client) == []


async def _has_letter(client: Client) -> bool:
    return bool(await letters(client))


async def test_what_a_webhook_tells_of_may_be_deleted_before_it_is_sent(
    start: Start, broker_bus: Bus, receiver: Receiver
) -> None:
    async with start() as client:
        event = await tell_end(broker_bus, receiver.url)
        await delivery(client, PENDING)
    stream, names = broker_bus.names.events_stream, broker_bus.names
    await broker_bus.jetstream.purge_stream(stream, subject=names.event(event.job_id, "*"))
    async with start(**ON) as client:
        await until(lambda: queue_is_empty(broker_bus))

        assert (receiver.received, await deliveries(client)) == ([], [])


async def test_a_factory_reset_takes_every_webhook_along(
    start: Start, broker_bus: Bus, receiver: Receiver
) -> None:
    receiver.answer(500)
    async with start(**ON) as client:
        event = await tell_end(broker_bus, receiver.url)  # of a job that is nobody's
        await delivery(client, PENDING, attempts=1)
        request = admin_pb.FactoryResetRequest(confirmation="ERASE EVERYTHING")
        await client.admin.FactoryReset(request)

        assert await traces(broker_bus, event.event_id) == []
        assert await queue_is_empty(broker_bus)
