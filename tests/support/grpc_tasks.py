"""Collectors and executors of strangers: services on real sockets, called over gRPC."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc

from mesh.status import to_error
from tests.support.tasks import struct
from ytcaption.v1 import collector_service_pb2 as collector_pb
from ytcaption.v1 import collector_service_pb2_grpc as collector_rpc
from ytcaption.v1 import executor_service_pb2 as executor_pb
from ytcaption.v1 import executor_service_pb2_grpc as executor_rpc
from ytcaption.v1 import task_pb2


@dataclass(frozen=True, slots=True)
class GrpcCollector:
    """Calls a collector service; the registry's own engine does more."""

    channel: grpc.aio.Channel

    async def describe(self) -> Mapping[str, task_pb2.TypeDescription]:
        return {}

    async def collect(
        self, request: collector_pb.CollectRequest
    ) -> AsyncGenerator[collector_pb.CollectResponse, None]:
        call = collector_rpc.CollectorServiceStub(self.channel).Collect(request)
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as error:
            raise to_error(error) from error
        finally:
            call.cancel()


@dataclass(frozen=True, slots=True)
class GrpcExecutor:
    """Calls an executor service."""

    channel: grpc.aio.Channel

    async def describe(self) -> Mapping[str, task_pb2.TypeDescription]:
        return {}

    async def execute(
        self,
        start: executor_pb.ExecuteStart,
        items: AsyncIterator[executor_pb.ExecuteRequest],
    ) -> AsyncGenerator[executor_pb.ExecuteResponse, None]:
        async def requests() -> AsyncIterator[executor_pb.ExecuteRequest]:
            yield executor_pb.ExecuteRequest(start=start)
            async for item in items:
                yield item

        call = executor_rpc.ExecutorServiceStub(self.channel).Execute(requests())
        try:
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as error:
            raise to_error(error) from error
        finally:
            call.cancel()


@dataclass(slots=True)
class Blog(collector_rpc.CollectorServiceServicer):
    """Finds posts one after the other."""

    posts: int = 3
    pause: Any = None
    """Called between two posts."""
    calls: list[collector_pb.CollectRequest] = field(default_factory=list)

    async def Describe(  # noqa: N802
        self, request: collector_pb.CollectorServiceDescribeRequest, context: Any
    ) -> collector_pb.CollectorServiceDescribeResponse:
        blog = task_pb2.TypeDescription(summary="Posts of a blog")
        return collector_pb.CollectorServiceDescribeResponse(types={"blog": blog})

    async def Collect(  # noqa: N802
        self, request: collector_pb.CollectRequest, context: Any
    ) -> AsyncIterator[collector_pb.CollectResponse]:
        self.calls.append(request)
        for number in range(1, self.posts + 1):
            url = f"http://blog.test/{number}"
            post = task_pb2.Document(url=url, title=f"Post {number}", text=f"Text {number}")
            yield collector_pb.CollectResponse(document=post)
            if self.pause is not None:
                await self.pause(number)


@dataclass(slots=True)
class Reporter(executor_rpc.ExecutorServiceServicer):
    """Makes a report of what it gets: a file, and a count."""

    pause: Any = None
    calls: list[executor_pb.ExecuteStart] = field(default_factory=list)

    async def Describe(  # noqa: N802
        self, request: executor_pb.ExecutorServiceDescribeRequest, context: Any
    ) -> executor_pb.ExecutorServiceDescribeResponse:
        report = task_pb2.TypeDescription(summary="A list of titles")
        return executor_pb.ExecutorServiceDescribeResponse(kinds={"report": report})

    async def Execute(  # noqa: N802
        self, request_iterator: AsyncIterator[executor_pb.ExecuteRequest], context: Any
    ) -> AsyncIterator[executor_pb.ExecuteResponse]:
        lines: list[str] = []
        async for request in request_iterator:
            match request.WhichOneof("event"):
                case "start":
                    self.calls.append(request.start)
                case "member":
                    lines.append(f"- {request.member.title}")
                case "document":
                    lines.append(f"- {request.document.title}")
        file = task_pb2.ResultFile(name="relatorio.md", media_type="text/markdown")
        yield executor_pb.ExecuteResponse(file=file)
        yield executor_pb.ExecuteResponse(chunk="\n".join(lines).encode())
        if self.pause is not None:
            await self.pause()
        yield executor_pb.ExecuteResponse(chunk=b"")
        yield executor_pb.ExecuteResponse(result=struct(itens=len(lines)))
