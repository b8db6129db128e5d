"""Statistics of jobs, queues and stores, and the limits in force."""

from datetime import timedelta

from google.protobuf.duration import from_timedelta

from mesh.bus import Bus
from orchestrator.jobs.index import JobIndex
from orchestrator.queue.work_queue import WorkQueue
from orchestrator.settings import Settings
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2


async def count(bus: Bus, index: JobIndex, queue: WorkQueue) -> pb.GetStatsResponse:
    """Counts jobs in the index, and everything that is ours on the broker."""
    found = {name: await bus.state(name) for name in bus.names.streams()}
    counts = sorted((await index.counts()).items())
    return pb.GetStatsResponse(
        jobs=[pb.StateCount(state=state, count=count) for state, count in counts],
        queue_depth=await queue.depth(),
        dead_letters=found[bus.names.dead_letter_stream].messages,
        stored_bytes=sum(state.bytes for state in found.values()),
    )


def limits_of(settings: Settings) -> job_pb2.Limits:
    """The operator's limits, for callers."""
    return job_pb2.Limits(
        max_upload_bytes=settings.max_upload_bytes,
        max_attempts=settings.max_attempts,
        concurrency=settings.concurrency,
        cache_time=from_timedelta(timedelta(hours=settings.cache_hours)),
        attempt_time=from_timedelta(timedelta(seconds=settings.job_seconds)),
        stall_time=from_timedelta(timedelta(seconds=settings.stall_seconds)),
        retention_time=from_timedelta(timedelta(hours=settings.retention_hours)),
    )
