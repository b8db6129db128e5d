"""An executor that is a service of its own, called over gRPC."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import grpc

from mesh.correlation import metadata_of
from mesh.errors import MeshError
from mesh.tasks import stop
from orchestrator.tasks.grpc_collector import DESCRIBE_SECONDS
from orchestrator.tasks.remote import MAX_CHUNK_BYTES, Remote
from ytcaption.v1 import executor_service_pb2 as pb
from ytcaption.v1 import executor_service_pb2_grpc as rpc
from ytcaption.v1 import task_pb2

SERVICE = "ytcaption.v1.ExecutorService"
MAX_FILES = 100
MAX_FILE_NAME = 200
MAX_MEDIA_TYPE = 100
MAX_RESULT_BYTES = 64 * 1024


class GrpcExecutor:
    """Makes what a service makes; fulfils `Executor`."""

    def __init__(self, channel: grpc.aio.Channel, remote: Remote) -> None:
        self._stub = rpc.ExecutorServiceStub(channel)
        self._remote = remote

    async def describe(self) -> Mapping[str, task_pb2.TypeDescription]:
        """What it makes, by kind."""
        async with self._remote.statuses():
            answer = await self._stub.Describe(
                pb.ExecutorServiceDescribeRequest(), timeout=DESCRIBE_SECONDS
            )
        return answer.kinds

    async def execute(
        self, start: pb.ExecuteStart, items: AsyncIterator[pb.ExecuteRequest]
    ) -> AsyncGenerator[pb.ExecuteResponse, None]:
        """Its answers, checked; the result comes last, once the call has ended well."""
        async with self._remote.permit() as permit:
            call: Any = self._stub.Execute(
                timeout=self._remote.timeout_seconds,
                metadata=metadata_of(start.correlation_id),
            )
            sending = asyncio.create_task(_send(call, start, items))
            answers = _Answers(self._remote)
            try:
                async for response in call:
                    permit.answered()
                    if answers.take(response):
                        yield response
                permit.answered()
            except (grpc.aio.AioRpcError, asyncio.CancelledError):
                if failure := _failure_of(sending):  # ours, not the service's
                    raise failure from None
                raise
            finally:
                call.cancel()
                await stop(sending)
            yield answers.result()


class _Answers:
    """What an executor answered so far."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._files: set[str] = set()
        self._result: pb.ExecuteResponse | None = None

    def take(self, response: pb.ExecuteResponse) -> bool:
        """Raises unless the response keeps to the contract; whether it is to be passed on now."""
        kind = response.WhichOneof("event")
        if kind is None:  # one that this version does not know
            return False
        self._require(self._result is None, "something comes after the result")
        if kind == "result":
            self._require(response.result.ByteSize() <= MAX_RESULT_BYTES, "the result is too large")
            self._result = response
            return False
        if kind == "file":
            self._check_file(response.file)
        elif kind == "chunk":
            self._require(bool(self._files), "it sends bytes of no file")
            self._require(len(response.chunk) <= MAX_CHUNK_BYTES, "a chunk is too large")
        return True

    def result(self) -> pb.ExecuteResponse:
        """The result; raises if there was none."""
        if self._result is None:
            raise self._remote.refused("it ended without a result")
        return self._result

    def _check_file(self, file: task_pb2.ResultFile) -> None:
        name = file.name
        usable = 0 < len(name) <= MAX_FILE_NAME and name.isprintable() and name not in (".", "..")
        self._require(usable and not set(name) & set("/\\"), "a file name is not usable")
        self._require(len(file.media_type) <= MAX_MEDIA_TYPE, "a media type is too long")
        self._require(name not in self._files, "two files have one name")
        self._require(len(self._files) < MAX_FILES, f"it makes more than {MAX_FILES} files")
        self._files.add(name)

    def _require(self, kept: bool, otherwise: str) -> None:
        if not kept:
            raise self._remote.refused(otherwise)


async def _send(call: Any, start: pb.ExecuteStart, items: AsyncIterator[pb.ExecuteRequest]) -> None:
    """Sends everything as fast as the service reads it; a failure to get an item ends the call."""
    try:
        await call.wait_for_connection()
        await _write(call, pb.ExecuteRequest(start=start))
        async for item in items:
            await _write(call, item)
        await call.done_writing()
    except (grpc.aio.AioRpcError, grpc.aio.InternalError):
        return  # it ended; those who read it learn why
    except BaseException:
        call.cancel()
        raise


async def _write(call: Any, item: pb.ExecuteRequest) -> None:
    """Sends one message; raises InternalError if the call has ended.

    Not `call.write`: if the service ends the call while a message is on its way, that would put a
    status of its own, without reason, in place of the service's (grpcio 1.85).
    """
    await call._cython_call.send_serialized_message(item.SerializeToString())


def _failure_of(sending: "asyncio.Task[None]") -> MeshError | None:
    """Why the items could not be sent, if that is not the service's fault."""
    if not sending.done() or sending.cancelled():
        return None
    failure = sending.exception()
    return failure if isinstance(failure, MeshError) else None
