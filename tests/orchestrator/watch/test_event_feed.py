"""Many watchers of one job: the same story for all, and live figures that never hold it up."""

import asyncio

from mesh.bus import Bus
from mesh.correlation import new_id
from orchestrator.feed import PROGRESS_GROUP, JobFeed
from orchestrator.story import StoryWriter, open_story
from orchestrator.told import MAX_JOINED_BYTES, Joined, Told
from ytcaption.v1 import event_pb2, job_pb2, media_pb2

WATCHERS = PROGRESS_GROUP * 3
SEGMENTS = 5


async def _tell_all(story: StoryWriter, job: job_pb2.Job) -> None:
    for index in range(SEGMENTS):
        for share in (0.1, 0.2, 0.3):
            await story.show_progress(job_pb2.JobProgress(job_id=job.job_id, progress=share))
        settled = event_pb2.SegmentSettled(segment=media_pb2.Segment(index=index))
        await story.tell(event_pb2.EVENT_TYPE_SEGMENT_SETTLED, segment_settled=settled)
    finished = event_pb2.JobFinished(job=job)
    await story.tell(event_pb2.EVENT_TYPE_JOB_FINISHED, job_finished=finished)


async def _opened(bus: Bus) -> tuple[job_pb2.Job, StoryWriter, int]:
    """A job, the writer of its story, and the sequence of its first event."""
    job = job_pb2.Job(job_id=new_id())
    await open_story(bus, job)
    names = bus.names
    read = bus.read(names.events_stream, names.event(job.job_id, "*"))
    (first,) = [stored.sequence async for stored in read]
    return job, StoryWriter(bus, job, first), first


async def test_every_watcher_sees_every_event_once_and_in_order(bus: Bus) -> None:
    job, story, _ = await _opened(bus)
    feed = JobFeed(bus, job.job_id)

    async def watch() -> tuple[list[Told], int]:
        await feed.read_stored()
        seen = [update async for update in feed.watch(after=0)]
        told = [update for update in seen if isinstance(update, Told)]
        return told, len(seen) - len(told)

    async with feed.running():
        watching = [asyncio.create_task(watch()) for _ in range(WATCHERS)]
        await _tell_all(story, job)
        seen = await asyncio.wait_for(asyncio.gather(*watching), 20)

    for told, figures in seen:
        assert [update.sequence for update in told] == sorted({one.sequence for one in told})
        indexes = [
            one.event.segment_settled.segment.index
            for one in told
            if one.event.HasField("segment_settled")
        ]
        assert indexes == list(range(SEGMENTS))
        assert told[-1].event.HasField("job_finished")
        assert figures <= SEGMENTS * 3


async def test_what_goes_out_is_made_once_for_all_watchers(bus: Bus) -> None:
    job, story, first = await _opened(bus)
    feed = JobFeed(bus, job.job_id)
    async with feed.running():
        await _tell_all(story, job)
        await feed.read_stored()

        one, other = [
            [update async for update in feed.watch(after=first) if isinstance(update, Told)]
            for _ in range(2)
        ]

    assert len(one) == SEGMENTS + 1
    assert all(mine.response is theirs.response for mine, theirs in zip(one, other, strict=True))
    assert one[0].response.sequence == one[0].sequence > first


async def test_whoever_joins_late_gets_the_newest_figures_at_once(bus: Bus) -> None:
    job, story, first = await _opened(bus)
    feed = JobFeed(bus, job.job_id)
    async with feed.running():
        early = feed.watch(after=first)
        seen = asyncio.ensure_future(anext(early))
        await story.show_progress(job_pb2.JobProgress(job_id=job.job_id, progress=0.5))
        await asyncio.wait_for(seen, 5)
        await feed.read_stored()

        late = feed.watch(after=first)
        assert await asyncio.wait_for(anext(late), 5) == job_pb2.JobProgress(
            job_id=job.job_id, progress=0.5
        )
        await early.aclose()
        await late.aclose()


async def test_events_that_wait_come_together_to_those_who_asked(bus: Bus) -> None:
    job, story, first = await _opened(bus)
    feed = JobFeed(bus, job.job_id)
    async with feed.running():
        await _tell_all(story, job)
        await feed.read_stored()

        watches = [feed.watch(after=first, join=True) for _ in range(2)]
        (one,), (other,) = [[update async for update in watch] for watch in watches]
        alone = [update async for update in feed.watch(after=_one_before_last(one), join=True)]

    assert isinstance(one, Joined)
    assert one is other, "made once for all who are at the same place"
    sequences = [stored.sequence for stored in one.response.events.events]
    assert sequences == [told.sequence for told in one.events]
    assert one.response.sequence == sequences[-1]
    assert [type(update) for update in alone] == [Told], "one event needs no envelope"


def _one_before_last(update: object) -> int:
    """Where a watcher stands who lacks the last event only."""
    assert isinstance(update, Joined)
    return update.events[-2].sequence


async def test_joined_events_stay_small_enough_for_a_crowd_that_stalls(bus: Bus) -> None:
    job, story, first = await _opened(bus)
    long = media_pb2.Segment(text="x" * (MAX_JOINED_BYTES // 3))
    for _ in range(7):
        settled = event_pb2.SegmentSettled(segment=long)
        await story.tell(event_pb2.EVENT_TYPE_SEGMENT_SETTLED, segment_settled=settled)
    feed = JobFeed(bus, job.job_id)
    await feed.read_stored()

    seen = [update async for update in feed.watch(after=first, join=True, follow=False)]

    assert [update.count for update in seen if isinstance(update, Told | Joined)] == [2, 2, 2, 1]
