"""What a machine cannot honour is refused before a job is accepted."""

import grpc
import pytest

from mesh.addresses import free_ports
from mesh.status import reason_of
from tests.client import Client
from tests.orchestrator.conftest import Start
from tests.orchestrator.scripted import SECOND, Script
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

VOCALS = job_pb2.JobOptions(isolate_vocals=True)


@pytest.mark.parametrize("by", ["address", "upload"])
async def test_an_option_the_normalizer_lacks_is_refused_with_what_is_missing(
    client: Client, script: Script, by: str
) -> None:
    script.missing = {"isolate_vocals": "no engine is installed"}
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await (
            client.create(options=VOCALS)
            if by == "address"
            else client.upload(SECOND, options=VOCALS)
        )

    assert reason_of(refused.value) == "OPTION_UNSUPPORTED"
    assert "no engine is installed" in (refused.value.details() or "")
    assert (await client.pipeline.ListJobs(pb.ListJobsRequest())).total_size == 0


async def test_an_option_it_has_is_passed_on(client: Client) -> None:
    ended = await client.finished((await client.create(options=VOCALS)).job_id)

    assert ended.state == job_pb2.JOB_STATE_SUCCEEDED


async def test_a_normalizer_that_cannot_be_asked_leaves_the_answer_open(start: Start) -> None:
    async with start(normalizer=f"127.0.0.1:{free_ports(1)[0]}") as client:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await client.create(options=VOCALS)
        accepted = await client.create()

    assert reason_of(refused.value) == "STAGE_UNAVAILABLE"
    assert accepted.job_id
