"""Many watchers of one job: the same event log for all, and live figures that never hold it up."""

import asyncio

from mesh.bus import Bus
from mesh.correlation import new_id
from orchestrator.jobs.event_log import EventLogReader, EventLogWriter, open_event_log
from orchestrator.watch.event_feed import (
    MAX_JOINED_BYTES,
    PROGRESS_GROUP,
    EventBatch,
    JobFeed,
    LoggedEvent,
)
from ytcaption.v1 import event_pb2, job_pb2, media_pb2

WATCHERS = PROGRESS_GROUP * 3
SEGMENTS = 5


async def _append_all(event_log: EventLogWriter, job: job_pb2.Job) -> None:
    for index in range(SEGMENTS):
        for share in (0.1, 0.2, 0.3):
            await event_log.publish_progress(job_pb2.JobProgress(job_id=job.job_id, progress=share))
        settled = event_pb2.SegmentSettled(segment=media_pb2.Segment(index=index))
        await event_log.append(segment_settled=settled)
    finished = event_pb2.JobFinished(job=job)
    await event_log.append(job_finished=finished)


async def _opened(bus: Bus) -> tuple[job_pb2.Job, EventLogWriter, int]:
    """A job, the writer of its event log, and the sequence of its first event."""
    job = job_pb2.Job(job_id=new_id())
    await open_event_log(bus, job)
    names = bus.names
    read = bus.read(names.events_stream, names.event(job.job_id, "*"))
    (first,) = [stored.sequence async for stored in read]
    return job, EventLogWriter(bus, job, first), first


async def test_every_watcher_sees_every_event_once_and_in_order(bus: Bus) -> None:
    job, event_log, _ = await _opened(bus)
    feed = JobFeed(bus, EventLogReader(bus), job.job_id)

    async def watch() -> tuple[list[LoggedEvent], int]:
        await feed.read_stored()
        seen = [update async for update in feed.watch(after=0)]
        events = [update for update in seen if isinstance(update, LoggedEvent)]
        return events, len(seen) - len(events)

    async with feed.running():
        watching = [asyncio.create_task(watch()) for _ in range(WATCHERS)]
        await _append_all(event_log, job)
        seen = await asyncio.wait_for(asyncio.gather(*watching), 60)

    for events, figures in seen:
        assert [update.sequence for update in events] == sorted({one.sequence for one in events})
        indexes = [
            one.event.segment_settled.segment.index
            for one in events
            if one.event.HasField("segment_settled")
        ]
        assert indexes == list(range(SEGMENTS))
        assert events[-1].event.HasField("job_finished")
        assert figures <= SEGMENTS * 3


async def test_messages_are_built_once_for_all_watchers(bus: Bus) -> None:
    job, event_log, first = await _opened(bus)
    feed = JobFeed(bus, EventLogReader(bus), job.job_id)
    async with feed.running():
        await _append_all(event_log, job)
        await feed.read_stored()

        one, other = [
            [update async for update in feed.watch(after=first) if isinstance(update, LoggedEvent)]
            for _ in range(2)
        ]

    assert len(one) == SEGMENTS + 1
    assert all(mine.response is theirs.response for mine, theirs in zip(one, other, strict=True))
    assert one[0].response.sequence == one[0].sequence > first


async def test_a_late_watcher_gets_the_newest_progress_at_once(bus: Bus) -> None:
    job, event_log, first = await _opened(bus)
    feed = JobFeed(bus, EventLogReader(bus), job.job_id)
    async with feed.running():
        early = feed.watch(after=first)
        seen = asyncio.ensure_future(anext(early))
        await event_log.publish_progress(job_pb2.JobProgress(job_id=job.job_id, progress=0.5))
        await asyncio.wait_for(seen, 60)
        await feed.read_stored()

        late = feed.watch(after=first)
        assert await asyncio.wait_for(anext(late), 60) == job_pb2.JobProgress(
            job_id=job.job_id, progress=0.5
        )
        await early.aclose()
        await late.aclose()


async def test_waiting_events_are_joined_for_watchers_that_ask_for_it(bus: Bus) -> None:
    job, event_log, first = await _opened(bus)
    feed = JobFeed(bus, EventLogReader(bus), job.job_id)
    async with feed.running():
        await _append_all(event_log, job)
        await feed.read_stored()

        watches = [feed.watch(after=first, join=True) for _ in range(2)]
        (one,), (other,) = [[update async for update in watch] for watch in watches]
        alone = [update async for update in feed.watch(after=_one_before_last(one), join=True)]

    assert isinstance(one, EventBatch)
    assert one is other, "made once for all who are at the same place"
    sequences = [stored.sequence for stored in one.response.events.events]
    assert sequences == [event.sequence for event in one.events]
    assert one.response.sequence == sequences[-1]
    assert [type(update) for update in alone] == [LoggedEvent], "one event needs no envelope"


def _one_before_last(update: object) -> int:
    """Where a watcher stands who lacks the last event only."""
    assert isinstance(update, EventBatch)
    return update.events[-2].sequence


async def test_a_batch_of_joined_events_has_a_size_limit(bus: Bus) -> None:
    job, event_log, first = await _opened(bus)
    long = media_pb2.Segment(text="x" * (MAX_JOINED_BYTES // 3))
    for _ in range(7):
        settled = event_pb2.SegmentSettled(segment=long)
        await event_log.append(segment_settled=settled)
    feed = JobFeed(bus, EventLogReader(bus), job.job_id)
    await feed.read_stored()

    seen = [update async for update in feed.watch(after=first, join=True, follow=False)]

    assert [update.count for update in seen if isinstance(update, LoggedEvent | EventBatch)] == [
        2,
        2,
        2,
        1,
    ]
