"""A model that is not ready yet shows in the health of the mesh, in jobs and in streams."""

from mesh.server import running_server
from orchestrator.pipeline.stages import stage_status
from tests.orchestrator.conftest import Start
from tests.support.client import Client
from tests.support.polling import until
from tests.support.scripted import SECOND, Script
from tests.support.scripted_stages import scripted_services
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import job_pb2, media_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

FETCHING = media_pb2.ModelPreparation(
    model="base",
    phase=media_pb2.PREPARATION_PHASE_FETCHING,
    fetched=media_pb2.ByteProgress(done_bytes=45_000_000, total_bytes=145_000_000),
)
LOADING = media_pb2.ModelPreparation(model="base", phase=media_pb2.PREPARATION_PHASE_LOADING)


async def transcriber_health(client: Client) -> admin_pb.ComponentHealth:
    found = await client.admin.GetHealth(admin_pb.GetHealthRequest())
    return next(part for part in found.components if part.name == "transcriber")


async def test_health_says_how_far_the_model_of_a_transcriber_is_that_does_not_serve_yet(
    start: Start,
) -> None:
    script = Script()
    script.preparing = [FETCHING]
    async with (
        running_server(scripted_services(script), grace_seconds=0, serving=False) as stage,
        start(transcriber=f"127.0.0.1:{stage.port}") as client,
    ):
        fetching = await transcriber_health(client)
        script.preparing = [LOADING]
        loading = await transcriber_health(client)
        script.preparing = []
        await stage.set_serving(True)
        await until(lambda: _is_healthy(client))
        serving = await transcriber_health(client)

    assert not fetching.healthy
    assert fetching.detail == "fetching model base, 45 of 145 MB"
    assert fetching.preparing == FETCHING
    assert (loading.healthy, loading.detail) == (False, "loading model base")
    assert (serving.detail, serving.HasField("preparing")) == ("serving", False)


async def _is_healthy(client: Client) -> bool:
    return (await transcriber_health(client)).healthy


async def test_one_replica_that_serves_is_enough(start: Start, script: Script) -> None:
    behind = Script()
    behind.preparing = [FETCHING]
    async with (
        running_server(scripted_services(behind), grace_seconds=0, serving=False) as one,
        running_server(scripted_services(script), grace_seconds=0) as other,
        start(transcriber=f"127.0.0.1:{one.port},127.0.0.1:{other.port}") as client,
    ):
        await until(lambda: _is_healthy(client))
        assert (await transcriber_health(client)).detail == "serving"


async def test_a_job_that_waits_for_a_model_says_so_until_the_model_is_ready(
    client: Client, script: Script
) -> None:
    script.preparing = [FETCHING]
    job_id = (await client.create()).job_id

    async def shows_what_it_waits_for() -> bool:
        job = await client.job(job_id)
        return stage_status(job, job_pb2.STAGE_TRANSCRIPTION).preparing == FETCHING

    await until(shows_what_it_waits_for)
    script.go_on.set()
    ended = await client.finished(job_id)

    assert ended.state == job_pb2.JOB_STATE_SUCCEEDED
    assert not any(stage.HasField("preparing") for stage in ended.stages)


async def test_a_stream_shows_what_it_waits_for_until_the_model_is_ready(
    client: Client, script: Script
) -> None:
    script.preparing = [LOADING]
    script.go_on.set()
    start = pb.TranscribeStreamRequest(start=pb.TranscribeStreamStart())
    frames = [start, pb.TranscribeStreamRequest(chunk=SECOND)]

    seen = [event async for event in client.pipeline.TranscribeStream(iter(frames))]

    updates = [event.progress for event in seen if event.HasField("progress")]
    waiting = [
        stage_status(update, job_pb2.STAGE_TRANSCRIPTION).HasField("preparing")
        for update in updates
    ]
    # The normalizer may move before the transcriber says what it waits for.
    begin = waiting.index(True)
    end = begin + waiting.count(True)
    assert all(waiting[begin:end]), "it is shown without a break"
    assert end < len(waiting), "and no longer once the model is ready"
    assert seen[-1].HasField("finished")
