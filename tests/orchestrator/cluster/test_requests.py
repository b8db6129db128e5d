"""One request is one job, whichever orchestrators get it."""

import asyncio

from tests.orchestrator.cluster.conftest import Join, accepted
from tests.support.cluster import Cluster

PAIRS = 60


async def test_orchestrators_that_get_one_request_at_one_moment_answer_with_one_job(
    cluster: Cluster, join: Join
) -> None:
    first, second, third = (node.url for node in cluster.nodes)
    async with (
        join(nats_url=first, concurrency=1) as one,
        join(nats_url=second, concurrency=1) as two,
        join(nats_url=third, concurrency=1) as three,
    ):
        for pair in range(PAIRS):
            answers = await asyncio.gather(
                *(accepted(client, f"request {pair}") for client in (one, two, three))
            )
            assert len({job.job_id for job in answers}) == 1
