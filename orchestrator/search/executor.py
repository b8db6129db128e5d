"""The executor `busca`: makes sure that a member is found by searches before its task ends.

The index takes in every job that ends by itself; a task of this kind waits for it. Documents of
collectors are not captions, and are not indexed.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.struct_pb2 import Struct

from mesh.errors import InvalidRequestError
from orchestrator.search.follower import Follower
from ytcaption.v1 import collection_pb2, executor_service_pb2, task_pb2


def _struct(values: Mapping[str, Any]) -> Struct:
    found = Struct()
    found.update(values)
    return found


KIND = "busca"
DESCRIPTION = task_pb2.TypeDescription(
    summary="Makes the captions of a recording searchable, and says when they are.",
    parameters_schema=_struct({"type": "object", "additionalProperties": False}),
    preferred_scope=task_pb2.EXECUTOR_SCOPE_ITEM,
    scopes=[task_pb2.EXECUTOR_SCOPE_ITEM],
)
"""It takes no parameters and needs no text: the index reads its own."""


@dataclass(frozen=True, slots=True)
class SearchExecutor:
    """Fulfils `orchestrator.tasks.types.Executor`."""

    follower: Follower

    async def describe(self) -> Mapping[str, task_pb2.TypeDescription]:
        """The one kind."""
        return {KIND: DESCRIPTION}

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
                result = _struct({"documento": item.document.number, "indexado": False})
            elif item.HasField("member"):
                result = await self._include(item.member)
            elif item.HasField("missing"):
                result = _result(item.missing, indexed=False, segments=0)
        if result is None:
            raise InvalidRequestError("the task names neither a member nor a document")
        yield executor_service_pb2.ExecuteResponse(result=result)

    async def _include(self, member: collection_pb2.Member) -> Struct:
        job = await self.follower.include(member.job_id)
        return _result(member, indexed=bool(job.segment_count), segments=job.segment_count)


def _result(member: collection_pb2.Member, *, indexed: bool, segments: int) -> Struct:
    return _struct({"job_id": member.job_id, "indexado": indexed, "segmentos": segments})
