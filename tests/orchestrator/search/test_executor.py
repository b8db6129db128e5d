"""The executor `busca` ends a task once its member is found."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mesh.bus import Bus
from mesh.errors import InvalidRequestError, MeshError, NotFoundError
from mesh.tasks import stop
from orchestrator.jobs.caption_files import CaptionReader
from orchestrator.jobs.index import JobIndex
from orchestrator.jobs.storage import JobStorage
from orchestrator.search.executor import KIND, SearchExecutor
from orchestrator.search.follower import Follower
from orchestrator.search.index import Filter, Search
from orchestrator.search.query import parse
from orchestrator.tasks.types import Executor
from tests.support.transcripts import spoken, store_job
from ytcaption.v1 import collection_pb2, executor_service_pb2, task_pb2

Request = executor_service_pb2.ExecuteRequest


@asynccontextmanager
async def following(bus: Bus, folder: Path) -> AsyncIterator[Follower]:
    storage, jobs = JobStorage.on(bus), JobIndex(bus)
    follower = Follower(jobs, CaptionReader(storage.artifacts, storage.event_logs), folder)
    running = asyncio.create_task(follower.run())
    try:
        await follower.opened()
        yield follower
    finally:
        await stop(running)


async def executed(executor: Executor, *items: Request, kind: str = KIND) -> dict[str, object]:
    async def given() -> AsyncIterator[Request]:
        for item in items:
            yield item

    start = executor_service_pb2.ExecuteStart(kind=kind)
    answers = [answer async for answer in executor.execute(start, given())]
    [last] = answers
    return dict(last.result)


def member(job_id: str) -> collection_pb2.Member:
    return collection_pb2.Member(number=1, job_id=job_id)


async def test_the_result_comes_once_the_member_is_found(broker_bus: Bus, tmp_path: Path) -> None:
    async with following(broker_bus, tmp_path) as follower:
        executor = SearchExecutor(follower)
        job_id = await store_job(broker_bus, spoken(["hello", "world"]))

        result = await executed(executor, Request(member=member(job_id)))

        assert result == {"job_id": job_id, "indexado": True, "segmentos": 2}
        search = Search(parse("world"), Filter(), 0, 9, lambda _: True)
        assert [hit.job_id for hit in follower.index.find(search).hits] == [job_id]
        assert await executed(executor, Request(member=member(job_id))) == result


async def test_a_member_without_captions_is_not_indexed(broker_bus: Bus, tmp_path: Path) -> None:
    async with following(broker_bus, tmp_path) as follower:
        silent = await store_job(broker_bus, spoken([]))
        executor = SearchExecutor(follower)

        for request in (Request(member=member(silent)), Request(missing=member(silent))):
            result = await executed(executor, request)
            assert result == {"job_id": silent, "indexado": False, "segmentos": 0}


async def test_a_document_is_answered_as_not_indexed(broker_bus: Bus, tmp_path: Path) -> None:
    async with following(broker_bus, tmp_path) as follower:
        document = task_pb2.Document(number=3, text="words")
        result = await executed(SearchExecutor(follower), Request(document=document))

    assert result == {"documento": 3, "indexado": False}


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (Request(member=member("01997b3e-6e0a-7c44-9d5f-0d3a5a3f2c11")), NotFoundError),
        (Request(), InvalidRequestError),
    ],
)
async def test_what_cannot_be_found_is_a_typed_error(
    broker_bus: Bus, tmp_path: Path, request_: Request, error: type[MeshError]
) -> None:
    async with following(broker_bus, tmp_path) as follower:
        with pytest.raises(error):
            await executed(SearchExecutor(follower), request_)
        with pytest.raises(InvalidRequestError):
            await executed(SearchExecutor(follower), request_, kind="another")


async def test_it_describes_itself(broker_bus: Bus, tmp_path: Path) -> None:
    async with following(broker_bus, tmp_path) as follower:
        described = await SearchExecutor(follower).describe()

    assert list(described) == ["busca"]
    assert described["busca"].preferred_scope == task_pb2.EXECUTOR_SCOPE_ITEM
    assert not described["busca"].needs_segments
