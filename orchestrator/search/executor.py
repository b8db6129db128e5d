"""The executor `busca`: makes sure that a member is found by searches before its task ends.

The index takes in every job that ends by itself; a task of this kind waits for it. Documents of
collectors are not captions, and are not indexed.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass

from google.protobuf.struct_pb2 import Struct

from mesh.errors import InvalidRequestError, UnsupportedError
from mesh.reasons import Reason
from orchestrator.search.follower import Follower
from ytcaption.v1 import collection_pb2, executor_service_pb2, task_pb2

KIND = "busca"


@dataclass(frozen=True, slots=True)
class SearchExecutor:
    """Fulfils `orchestrator.tasks.types.Executor`."""

    follower: Follower

    async def describe(self) -> Mapping[str, task_pb2.TypeDescription]:
        """The one kind; it takes no parameters and needs no text, as the index reads its own."""
        schema = Struct()
        schema.update({"type": "object", "additionalProperties": False})
        description = task_pb2.TypeDescription(
            summary="Makes the captions of a recording searchable, and says when they are.",
            parameters_schema=schema,
            preferred_scope=task_pb2.EXECUTOR_SCOPE_ITEM,
            scopes=[task_pb2.EXECUTOR_SCOPE_ITEM],
        )
        return {KIND: description}

    async def execute(
        self,
        start: executor_service_pb2.ExecuteStart,
        items: AsyncIterator[executor_service_pb2.ExecuteRequest],
    ) -> AsyncGenerator[executor_service_pb2.ExecuteResponse, None]:
        """The result, once the captions of the member are in the index."""
        if start.kind != KIND:
            raise InvalidRequestError(f"kind {start.kind[:40]!r} is not {KIND}")
        result: Struct | None = None
        async for item in items:
            if item.HasField("document"):
                raise UnsupportedError(
                    "documents are not searchable", reason=Reason.OPTION_UNSUPPORTED
                )
            if item.HasField("member"):
                result = await self._include(item.member)
            elif item.HasField("missing"):
                result = _result(item.missing, indexed=False, segments=0)
        if result is None:
            raise InvalidRequestError("the task names no member")
        yield executor_service_pb2.ExecuteResponse(result=result)

    async def _include(self, member: collection_pb2.Member) -> Struct:
        job = await self.follower.include(member.job_id)
        return _result(member, indexed=bool(job.segment_count), segments=job.segment_count)


def _result(member: collection_pb2.Member, *, indexed: bool, segments: int) -> Struct:
    result = Struct()
    result.update({"job_id": member.job_id, "indexado": indexed, "segmentos": segments})
    return result
