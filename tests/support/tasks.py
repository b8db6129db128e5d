"""Collectors and executors that a test scripts, and what callers see of their subtasks."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.struct_pb2 import Struct

from mesh.bus import Bus
from mesh.errors import MeshError
from orchestrator.tasks.types import COLLECTOR, EXECUTOR, Registered
from tests.support.client import Client
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1 import collector_service_pb2, executor_service_pb2, task_pb2

Found = collector_service_pb2.CollectResponse
Made = executor_service_pb2.ExecuteResponse


def recording(url: str, key: str = "", **fields: Any) -> Found:
    return Found(key=key, recording=collector_service_pb2.CollectedRecording(url=url, **fields))


def document(url: str, text: str = "A text", **fields: Any) -> Found:
    return Found(document=task_pb2.Document(url=url, text=text, **fields))


def file(name: str, *chunks: bytes, **fields: Any) -> list[Found]:
    begin = Found(file=collector_service_pb2.CollectedFile(file_name=name, **fields))
    return [begin, *(Found(chunk=chunk) for chunk in chunks), Found(chunk=b"")]


def struct(**values: Any) -> Struct:
    found = Struct()
    found.update(values)
    return found


@dataclass(slots=True)
class ScriptedCollector:
    """Finds what it was given; fails with what it was given first; waits where it is told to."""

    found: Sequence[Found] = ()
    failures: list[MeshError] = field(default_factory=list)
    """Of its next attempts, each after everything was found."""
    hangs: bool = False
    """Does not end before `go_on` is set."""
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    requests: list[collector_service_pb2.CollectRequest] = field(default_factory=list)
    running: int = 0
    most: int = 0
    stopped: int = 0
    """Calls that were cancelled."""

    async def describe(self) -> Mapping[str, task_pb2.TypeDescription]:
        return {}

    async def collect(
        self, request: collector_service_pb2.CollectRequest
    ) -> AsyncGenerator[Found, None]:
        self.requests.append(request)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            for one in self.found:
                yield one
            if self.failures:
                raise self.failures.pop(0)
            if self.hangs:
                await self.go_on.wait()
        except (asyncio.CancelledError, GeneratorExit):
            self.stopped += 1
            raise
        finally:
            self.running -= 1


@dataclass(slots=True)
class ScriptedExecutor:
    """Answers with what it got; or with files and a result it was given."""

    answers: Sequence[Made] = ()
    failures: list[MeshError] = field(default_factory=list)
    hangs: bool = False
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    starts: list[executor_service_pb2.ExecuteStart] = field(default_factory=list)
    items: list[list[executor_service_pb2.ExecuteRequest]] = field(default_factory=list)

    async def describe(self) -> Mapping[str, task_pb2.TypeDescription]:
        return {}

    async def execute(
        self,
        start: executor_service_pb2.ExecuteStart,
        items: AsyncIterator[executor_service_pb2.ExecuteRequest],
    ) -> AsyncGenerator[Made, None]:
        self.starts.append(start)
        got = [item async for item in items]
        self.items.append(got)
        if self.failures:
            raise self.failures.pop(0)
        if self.hangs:
            await self.go_on.wait()
        for answer in self.answers:
            yield answer
        if not any(one.HasField("result") for one in self.answers):
            yield Made(result=struct(**_counted(got)))


def _counted(items: Sequence[executor_service_pb2.ExecuteRequest]) -> dict[str, int]:
    kinds = [str(one.WhichOneof("event")) for one in items]
    return {kind: kinds.count(kind) for kind in set(kinds)}


def collector(
    name: str, engine: Any = None, *, seconds: float = 240, at_once: int = 4
) -> Registered:
    """A type that is served by the engine; by programs behind a queue without one."""
    return Registered(
        type=name,
        role=COLLECTOR,
        transport=task_pb2.TASK_TRANSPORT_BUILT_IN if engine else task_pb2.TASK_TRANSPORT_QUEUE,
        max_in_flight=at_once,
        timeout_seconds=seconds,
        description=task_pb2.TypeDescription(),
        collector=engine,
    )


def executor(  # noqa: PLR0913 # what a registration has
    name: str,
    engine: Any = None,
    *,
    seconds: float = 240,
    at_once: int = 4,
    scope: "task_pb2.ExecutorScope.ValueType" = task_pb2.EXECUTOR_SCOPE_COLLECTION,
    segments: bool = False,
) -> Registered:
    """The same for an executor, which can get either scope."""
    both = [task_pb2.EXECUTOR_SCOPE_ITEM, task_pb2.EXECUTOR_SCOPE_COLLECTION]
    return Registered(
        type=name,
        role=EXECUTOR,
        transport=task_pb2.TASK_TRANSPORT_BUILT_IN if engine else task_pb2.TASK_TRANSPORT_QUEUE,
        max_in_flight=at_once,
        timeout_seconds=seconds,
        description=task_pb2.TypeDescription(
            preferred_scope=scope, scopes=both, needs_segments=segments
        ),
        executor=engine,
    )


def source(name: str, **parameters: Any) -> task_pb2.SourceSpec:
    return task_pb2.SourceSpec(type=name, parameters=struct(**parameters))


def result(kind: str, **fields: Any) -> task_pb2.ExecutorSpec:
    return task_pb2.ExecutorSpec(kind=kind, **fields)


async def subtasks(client: Client, collection_id: str) -> list[task_pb2.Subtask]:
    request = pb.ListSubtasksRequest(collection_id=collection_id, page_size=200)
    return list((await client.collections.ListSubtasks(request)).subtasks)


async def documents(client: Client, collection_id: str) -> list[task_pb2.Document]:
    found: list[task_pb2.Document] = []
    token = ""
    while True:
        request = pb.ListDocumentsRequest(
            collection_id=collection_id, page_size=200, page_token=token
        )
        page = await client.collections.ListDocuments(request)
        found.extend(page.documents)
        token = page.next_page_token
        if not token:
            return found


def states(found: Sequence[task_pb2.Subtask]) -> dict[str, str]:
    """The state of each subtask by its type."""
    return {one.type: state(one) for one in found}


def state(subtask: task_pb2.Subtask) -> str:
    return task_pb2.SubtaskState.Name(subtask.state).removeprefix("SUBTASK_STATE_")


async def traces(bus: Bus, *ids: str) -> list[str]:
    """Every stored subject that names one of these ids."""
    found = []
    for stream in (*bus.names.streams(), bus.names.tasks_stream, bus.names.queues_stream):
        async for stored in bus.read(stream, ">"):
            if not stored.deleted and any(one in stored.subject for one in ids):
                found.append(stored.subject)
    return found


Check = Callable[[], Any]
