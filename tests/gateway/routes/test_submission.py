"""Submissions while the orchestrator goes away: the answer is the job, and there is one job."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from gateway import client
from mesh.errors import UnavailableError, UnusableMediaError
from mesh.reasons import Reason
from tests.support.busy_orchestrator import serving
from tests.support.http import running_gateway
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import pipeline_service_pb2_grpc as rpc

if TYPE_CHECKING:  # to mypy a servicer without all its rpcs is abstract; at run time it is not
    Servicer = object
else:
    Servicer = rpc.PipelineServiceServicer

URL = {"youtube_url": "https://example.test/watch?v=1"}


@pytest.fixture(autouse=True)
def gave_up(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once a call has failed in spite of the channel's own retries."""
    monkeypatch.setattr(client, "RETRY_SECONDS", 60.0)  # for busy machines
    failed = asyncio.Event()
    call = client.call

    async def observed(*arguments: Any) -> Any:
        try:
            return await call(*arguments)
        except UnavailableError:
            failed.set()
            raise

    monkeypatch.setattr(client, "call", observed)
    return failed


class Accepting(Servicer):
    """Keeps one job for each request_id; the first call of all gets no answer once it is kept."""

    def __init__(self) -> None:
        self.jobs: dict[str, job_pb2.Job] = {}
        self.request_ids: list[str] = []
        self.kept = asyncio.Event()
        self.keeps = True
        """Whether the call without an answer is kept at all."""
        self.refusal: UnavailableError | None = None

    async def CreateJob(self, request: pb.CreateJobRequest, context: Any) -> pb.CreateJobResponse:  # noqa: N802
        if self.refusal is not None:
            self.request_ids.append(request.request_id)
            raise self.refusal
        return pb.CreateJobResponse(job=await self._accept(request.request_id, b"url"))

    async def CreateJobFromUpload(  # noqa: N802
        self, requests: AsyncIterator[pb.CreateJobFromUploadRequest], context: Any
    ) -> pb.CreateJobFromUploadResponse:
        start = (await anext(aiter(requests))).start
        if found := self.jobs.get(start.request_id):
            self.request_ids.append(start.request_id)
            return pb.CreateJobFromUploadResponse(job=found)
        data = b"".join([request.chunk async for request in requests])
        if not data:
            raise UnusableMediaError("the file is empty", reason=Reason.EMPTY_MEDIA)
        return pb.CreateJobFromUploadResponse(job=await self._accept(start.request_id, data))

    async def _accept(self, request_id: str, data: bytes) -> job_pb2.Job:
        first = not self.request_ids
        self.request_ids.append(request_id)
        if self.keeps or not first:
            job = job_pb2.Job(job_id=f"job-{len(self.jobs)}", state=job_pb2.JOB_STATE_QUEUED)
            self.jobs.setdefault(request_id, job)
        if first:
            self.kept.set()
            await asyncio.Event().wait()
        return self.jobs[request_id]


async def answer_across_a_crash(
    orchestrator: Accepting, path: str, back: asyncio.Event | None = None, **request: Any
) -> httpx2.Response:
    """The answer to a POST whose orchestrator dies after it has kept the job, and comes back.

    It comes back when `back` is set.
    """
    async with serving(orchestrator) as address:
        gateway = running_gateway(orchestrator=address)
        http = await gateway.__aenter__()
        posting = asyncio.create_task(http.post(path, **request))
        await orchestrator.kept.wait()
    try:
        if back is not None:
            await back.wait()
        async with serving(orchestrator, listen=address):
            return await posting
    finally:
        await gateway.__aexit__(None, None, None)


@pytest.mark.parametrize("given", ["", "given by the caller"])
@pytest.mark.parametrize("kept", [True, False])
async def test_a_url_posted_while_the_orchestrator_dies_is_one_job(
    given: str, kept: bool, gave_up: asyncio.Event
) -> None:
    orchestrator = Accepting()
    orchestrator.keeps = kept
    order = URL | ({"request_id": given} if given else {})

    answer = await answer_across_a_crash(orchestrator, "/pipeline", gave_up, json=order)

    assert (answer.status_code, answer.json()["job_id"]) == (202, "job-0")
    assert len(orchestrator.jobs) == 1
    assert len(orchestrator.request_ids) > 1
    (request_id,) = set(orchestrator.request_ids)
    assert request_id == given if given else request_id


async def test_an_upload_that_had_arrived_when_the_orchestrator_died_is_one_job() -> None:
    orchestrator = Accepting()

    answer = await answer_across_a_crash(orchestrator, "/uploads", content=b"media")

    assert (answer.status_code, answer.json()["job_id"]) == (202, "job-0")
    assert len(orchestrator.jobs) == 1


async def test_an_upload_that_was_lost_with_the_orchestrator_is_refused() -> None:
    orchestrator = Accepting()
    orchestrator.keeps = False

    answer = await answer_across_a_crash(orchestrator, "/uploads", content=b"media")

    assert answer.status_code == 503
    assert orchestrator.jobs == {}


async def test_two_posts_without_an_id_are_two_jobs() -> None:
    orchestrator = Accepting()
    orchestrator.request_ids.append("an earlier one")
    async with (
        serving(orchestrator) as address,
        running_gateway(orchestrator=address) as http,
    ):
        for _ in range(2):
            assert (await http.post("/pipeline", json=URL)).status_code == 202

    assert len(orchestrator.jobs) == 2


async def test_an_orchestrator_that_stays_unavailable_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.0)
    orchestrator = Accepting()
    orchestrator.refusal = UnavailableError("no broker", reason=Reason.STORAGE_UNAVAILABLE)
    async with (
        serving(orchestrator) as address,
        running_gateway(orchestrator=address) as http,
    ):
        answer = await http.post("/pipeline", json=URL)

    assert (answer.status_code, answer.json()["reason"]) == (503, "STORAGE_UNAVAILABLE")
    assert len(set(orchestrator.request_ids)) == 1
