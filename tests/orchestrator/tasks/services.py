"""Collectors and executors as strangers write them: plain gRPC, with scripts for faults."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as Packed
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from ytcaption.v1 import collector_service_pb2 as collector_pb
from ytcaption.v1 import collector_service_pb2_grpc as collector_rpc
from ytcaption.v1 import executor_service_pb2 as executor_pb
from ytcaption.v1 import executor_service_pb2_grpc as executor_rpc
from ytcaption.v1 import task_pb2

SCHEMA = {
    "type": "object",
    "properties": {"endereco": {"type": "string"}, "limite": {"type": "integer", "minimum": 1}},
    "required": ["endereco"],
    "additionalProperties": False,
}


def struct(values: dict[str, Any]) -> Struct:
    made = Struct()
    made.update(values)
    return made


def recording(url: str, **fields: Any) -> collector_pb.CollectResponse:
    return collector_pb.CollectResponse(
        recording=collector_pb.CollectedRecording(url=url, **fields)
    )


def document(text: str, **fields: Any) -> collector_pb.CollectResponse:
    return collector_pb.CollectResponse(document=task_pb2.Document(text=text, **fields))


@dataclass
class Stranger:
    """What a service does, and what it saw."""

    types: tuple[str, ...] = ("blog",)
    schema: dict[str, Any] = field(default_factory=lambda: SCHEMA)
    answers: list[Any] = field(default_factory=list)
    """Responses in order; a Status ends the call with it, an Event is waited for."""
    requests: list[Any] = field(default_factory=list)
    metadata: list[dict[str, Any]] = field(default_factory=list)
    deadlines: list[float] = field(default_factory=list)
    sent: int = 0
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    began: asyncio.Event = field(default_factory=asyncio.Event)
    describes: int = 0
    describe_fault: grpc.StatusCode | None = None

    async def described(self, context: Any) -> dict[str, task_pb2.TypeDescription]:
        self.describes += 1
        if self.describe_fault is not None:
            await context.abort(self.describe_fault, "not now")
        said = task_pb2.TypeDescription(summary="Of a test", parameters_schema=struct(self.schema))
        return dict.fromkeys(self.types, said)

    async def answer(self, context: Any) -> AsyncIterator[Any]:
        self.metadata.append(dict(context.invocation_metadata()))
        self.deadlines.append(context.time_remaining())
        self.began.set()
        try:
            for one in self.answers:
                if isinstance(one, asyncio.Event):
                    await one.wait()
                elif isinstance(one, Status):
                    await context.abort_with_status(rpc_status.to_status(one))
                else:
                    yield one
                    self.sent += 1
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled.set()
            raise


def status(
    code: grpc.StatusCode, message: str, *, reason: str = "", retry_seconds: int = 0
) -> Status:
    """A status as a server of another language would send it."""
    details = []
    for one in (
        ErrorInfo(reason=reason, domain="example.org") if reason else None,
        RetryInfo(retry_delay=Duration(seconds=retry_seconds)) if retry_seconds else None,
    ):
        if one is not None:
            packed = Packed()
            packed.Pack(one)
            details.append(packed)
    return Status(code=code.value[0], message=message, details=details)


class CollectorOfStranger(collector_rpc.CollectorServiceServicer):
    """Serves the types of its script."""

    def __init__(self, script: Stranger) -> None:
        self.script = script

    async def Describe(self, request: Any, context: Any) -> Any:  # noqa: N802
        types = await self.script.described(context)
        return collector_pb.CollectorServiceDescribeResponse(types=types)

    async def Collect(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        self.script.requests.append(request)
        async for one in self.script.answer(context):
            yield one


class ExecutorOfStranger(executor_rpc.ExecutorServiceServicer):
    """Makes the kinds of its script."""

    def __init__(self, script: Stranger, *, reads: bool = True) -> None:
        self.script = script
        self.reads = reads

    async def Describe(self, request: Any, context: Any) -> Any:  # noqa: N802
        kinds = await self.script.described(context)
        return executor_pb.ExecutorServiceDescribeResponse(kinds=kinds)

    async def Execute(self, requests: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        if self.reads:
            async for one in requests:
                self.script.requests.append(one)
        async for one in self.script.answer(context):
            yield one


@asynccontextmanager
async def serving(*add: Callable[[grpc.aio.Server], None], port: int = 0) -> AsyncIterator[str]:
    """A plain server: no health service, no interceptors. Yields its address."""
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    for one in add:
        one(server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


def collector(script: Stranger) -> Callable[[grpc.aio.Server], None]:
    return lambda server: collector_rpc.add_CollectorServiceServicer_to_server(
        CollectorOfStranger(script), server
    )


def executor(script: Stranger, *, reads: bool = True) -> Callable[[grpc.aio.Server], None]:
    return lambda server: executor_rpc.add_ExecutorServiceServicer_to_server(
        ExecutorOfStranger(script, reads=reads), server
    )
