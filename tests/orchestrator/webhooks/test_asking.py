"""Which requests may name a webhook_url, and how deliveries are listed."""

from collections.abc import Awaitable

import pytest

from mesh.bus import Bus
from tests.orchestrator.conftest import Start
from tests.orchestrator.webhooks.deliveries import (
    ON,
    deliveries,
    publish_job_finished,
    queue_is_empty,
)
from tests.orchestrator.webhooks.receiver import SECRET, Receiver
from tests.support.client import refusal
from tests.support.polling import until
from tests.support.scripted import Script
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import pipeline_service_pb2 as pb


async def test_an_undeliverable_webhook_url_is_refused_on_submission(
    start: Start, script: Script, receiver: Receiver
) -> None:
    async with start(webhook_secret=SECRET) as client:
        done = await client.finished((await client.create()).job_id)
        again = pb.RepeatJobRequest(job_id=done.job_id, webhook_url=receiver.url)
        calls: list[Awaitable[object]] = [
            client.create(webhook_url=receiver.url),
            client.upload(b"x", webhook_url=receiver.url),
            client.pipeline.RepeatJob(again),
        ]
        assert [await refusal(call) for call in calls] == ["ADDRESS_FORBIDDEN"] * 3
        assert await refusal(client.create(webhook_url="ftp://x")) == "UNSUPPORTED_URL"
        listed = await client.pipeline.ListJobs(pb.ListJobsRequest())
        assert [job.job_id for job in listed.jobs] == [done.job_id]
    async with start() as client:
        assert await refusal(client.create(webhook_url="https://x.example")) == "WEBHOOKS_OFF"


async def test_uploads_and_reruns_send_only_their_own_webhook(
    start: Start, receiver: Receiver
) -> None:
    async with start(**ON) as client:
        first = await client.upload(bytes(32_000), webhook_url=receiver.url)
        await client.finished(first.job_id)
        await receiver.wait_for(1)
        silent = await client.pipeline.RepeatJob(pb.RepeatJobRequest(job_id=first.job_id))
        assert silent.job.webhook_url == ""
        await client.finished(silent.job.job_id)
        again = pb.RepeatJobRequest(job_id=first.job_id, webhook_url=receiver.url + "/again")
        third = (await client.pipeline.RepeatJob(again)).job
        await client.finished(third.job_id)
        received = await receiver.wait_for(2)

    assert [request.target for request in received] == ["/hook", "/hook/again"]


async def test_the_log_is_read_page_by_page_and_by_job(
    start: Start, broker_bus: Bus, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.queue.paging.FIRST_WINDOW", 3)
    async with start(**ON) as client:
        events = []
        for number in range(5):  # one after another: the one that changed last comes first
            events.append(await publish_job_finished(broker_bus, receiver.url))
            await receiver.wait_for(number + 1)
            await until(lambda: queue_is_empty(broker_bus))
        pages: list[list[str]] = []
        token = ""
        while not pages or token:
            page = await client.admin.ListWebhookDeliveries(
                admin_pb.ListWebhookDeliveriesRequest(page_size=2, page_token=token)
            )
            pages.append([found.event_id for found in page.deliveries])
            token = page.next_page_token
        (of_job,) = await deliveries(client, job_id=events[1].job_id)

        ids = [event.event_id for event in reversed(events)]
        assert pages == [ids[:2], ids[2:4], ids[4:]]
        assert of_job.event_id == events[1].event_id
        assert await deliveries(client, collection_id=events[1].job_id) == []
