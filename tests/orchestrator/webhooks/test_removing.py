"""Webhooks are removed with their job or collection."""

from mesh.bus import Bus
from tests.orchestrator.conftest import Start
from tests.orchestrator.webhooks.deliveries import (
    DEAD,
    ON,
    PENDING,
    deliveries,
    delivery,
    publish_job_finished,
    queue_is_empty,
)
from tests.orchestrator.webhooks.receiver import Receiver
from tests.support.client import Client
from tests.support.dead_letters import letters
from tests.support.polling import until
from tests.support.traces import traces
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import pipeline_service_pb2 as pb


async def test_deleting_a_job_removes_its_webhooks(
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


async def test_the_webhook_of_a_deleted_job_is_dropped_unsent(
    start: Start, broker_bus: Bus, receiver: Receiver
) -> None:
    async with start() as client:
        event = await publish_job_finished(broker_bus, receiver.url)
        await delivery(client, PENDING)
    stream, names = broker_bus.names.events_stream, broker_bus.names
    await broker_bus.jetstream.purge_stream(stream, subject=names.event(event.job_id, "*"))
    async with start(**ON) as client:
        await until(lambda: queue_is_empty(broker_bus))

        assert (receiver.received, await deliveries(client)) == ([], [])


async def test_a_factory_reset_removes_every_webhook(
    start: Start, broker_bus: Bus, receiver: Receiver
) -> None:
    receiver.answer(500)
    async with start(**ON) as client:
        event = await publish_job_finished(broker_bus, receiver.url)  # of a job without a record
        await delivery(client, PENDING, attempts=1)
        request = admin_pb.FactoryResetRequest(confirmation="ERASE EVERYTHING")
        await client.admin.FactoryReset(request)

        assert await traces(broker_bus, event.event_id) == []
        assert await queue_is_empty(broker_bus)
