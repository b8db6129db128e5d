"""What is sent and what is logged of it have bounds, and within them nothing is left out."""

import json

from mesh.bus import Bus
from mesh.correlation import new_id
from orchestrator.webhooks.deliveries import MAX_ATTEMPTS_KEPT, Deliveries
from orchestrator.webhooks.queue import MAX_BODY, item_of
from ytcaption.v1 import event_pb2, job_pb2, media_pb2, webhook_pb2


def ended(chapters: int) -> event_pb2.Event:
    """The end of a job whose recording has so many chapters."""
    media = media_pb2.MediaInfo(title="A talk")
    for number in range(chapters):
        media.chapters.add(title=f"Chapter {number}")
    job = job_pb2.Job(job_id="one", webhook_url="https://hooks.example.test", media=media)
    return event_pb2.Event(
        event_id=new_id(),
        type=event_pb2.EVENT_TYPE_JOB_FINISHED,
        job_id="one",
        job_finished=event_pb2.JobFinished(job=job),
    )


def test_a_body_that_is_too_large_loses_its_chapters_first() -> None:
    small, large = item_of(ended(10)), item_of(ended(10_000))

    assert small is not None
    assert large is not None
    assert len(json.loads(small.body)["data"]["media"]["chapters"]) == 10
    assert json.loads(large.body)["data"]["media"] == {"title": "A talk"}
    assert len(large.body) <= MAX_BODY


async def test_the_log_keeps_the_newest_attempts_and_the_count_of_all(broker_bus: Bus) -> None:
    deliveries, item = Deliveries(broker_bus), webhook_pb2.WebhookItem(event_id=new_id())
    versioned = await deliveries.of(item)
    for number in range(1, MAX_ATTEMPTS_KEPT + 4):
        versioned.delivery.attempts.add(number=number)
    await deliveries.save(versioned)

    found = await deliveries.of(item)

    assert len(found.delivery.attempts) == MAX_ATTEMPTS_KEPT
    assert (found.delivery.attempts[0].number, found.made) == (4, MAX_ATTEMPTS_KEPT + 3)
