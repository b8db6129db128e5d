"""Counts and sizes."""

from dataclasses import dataclass
from datetime import timedelta

from google.protobuf.duration import from_timedelta

from mesh.bus import Bus, storing
from orchestrator.index import JobIndex
from orchestrator.queue import WorkQueue
from orchestrator.settings import Settings
from orchestrator.stages import StateId
from ytcaption.v1 import job_pb2


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts and sizes of everything that is ours on the broker."""

    jobs: dict[StateId, int]
    queue_depth: int
    dead_letters: int
    stored_bytes: int


async def count(bus: Bus, index: JobIndex, queue: WorkQueue) -> Stats:
    """Asks the index and the broker."""
    sizes: dict[str, tuple[int, int]] = {}
    async with storing():
        for stream in bus.names.streams():
            state = (await bus.jetstream.stream_info(stream)).state
            sizes[stream] = (state.messages, state.bytes)
    return Stats(
        jobs=await index.counts(),
        queue_depth=await queue.depth(),
        dead_letters=sizes[bus.names.dead_letter_stream][0],
        stored_bytes=sum(size for _, size in sizes.values()),
    )


def limits_of(settings: Settings) -> job_pb2.Limits:
    """What the operator allows, for callers."""
    return job_pb2.Limits(
        max_upload_bytes=settings.max_upload_bytes,
        max_attempts=settings.max_attempts,
        concurrency=settings.concurrency,
        cache_time=from_timedelta(timedelta(hours=settings.cache_hours)),
        attempt_time=from_timedelta(timedelta(seconds=settings.job_seconds)),
        stall_time=from_timedelta(timedelta(seconds=settings.stall_seconds)),
        retention_time=from_timedelta(timedelta(hours=settings.retention_hours)),
    )
