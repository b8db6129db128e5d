"""Measures queues, consumers, jobs and dead letters for Prometheus, every few seconds."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from math import nan

from nats.errors import Error as NatsError
from prometheus_client import Gauge
from structlog import get_logger

from mesh.errors import MeshError
from mesh.messages import enum_word
from orchestrator.jobs.index import STATES
from orchestrator.metrics import CONSUMER_LAG, DEAD_LETTERS, JOBS, QUEUE_DEPTH
from orchestrator.queue.consumers import Consumer
from ytcaption.v1 import admin_service_pb2, job_pb2

log = get_logger(__name__)

EVERY_SECONDS = 10.0
"""Less than the time between two scrapes."""

CountStats = Callable[[], Awaitable[admin_service_pb2.GetStatsResponse]]


class Gauges:
    """Every replica measures the same stores: a dashboard takes the maximum, not the sum.

    A figure that cannot be measured is NaN, never an old one.
    """

    def __init__(self, stats: CountStats, consumers: Sequence[Consumer]) -> None:
        self._stats = stats
        self._consumers = consumers

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await self.measure()
            await asyncio.sleep(EVERY_SECONDS)

    async def measure(self) -> None:
        """Measures everything once."""
        await _measured(self._measure_jobs, [QUEUE_DEPTH, DEAD_LETTERS, *_of_states().values()])
        for consumer in self._consumers:
            await self._measure_lag(consumer)

    async def _measure_jobs(self) -> None:
        found = await self._stats()
        QUEUE_DEPTH.set(found.queue_depth)
        DEAD_LETTERS.set(found.dead_letters)
        counts: dict[int, int] = {one.state: one.count for one in found.jobs}
        for state, gauge in _of_states().items():
            gauge.set(counts.get(state) or 0)

    async def _measure_lag(self, consumer: Consumer) -> None:
        gauge = CONSUMER_LAG.labels(consumer.name)

        async def measure() -> None:
            gauge.set(await consumer.lag())

        await _measured(measure, [gauge])


def _of_states() -> Mapping[int, Gauge]:
    return {state: JOBS.labels(enum_word(job_pb2.JobState, state)) for state in STATES}


async def _measured(measure: Callable[[], Awaitable[None]], gauges: Sequence[Gauge]) -> None:
    try:
        await measure()
    except (MeshError, NatsError) as error:
        log.debug("cannot measure", error=str(error))
        for gauge in gauges:
            gauge.set(nan)
