"""Reads subtasks, documents and result files of a collection for callers who may see it."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import Message

from mesh.errors import NotFoundError
from mesh.reasons import Reason
from orchestrator.collections.documents import Documents
from orchestrator.collections.projection import Projection, Projections
from orchestrator.collections.records import CollectionStore
from orchestrator.jobs.artifacts import Artifacts
from orchestrator.queue.paging import MAX_PAGE_BYTES, Page, fitting, page_size, sequence_of
from orchestrator.tasks.results import stored_name
from ytcaption.v1 import task_pb2

AT_ONCE = 40
"""Documents whose texts are read for one page: each may have half a mebibyte."""
PartT = TypeVar("PartT", bound=Message)


@dataclass(frozen=True, slots=True)
class SubtaskReader:
    """Pages begin behind the number that is their token."""

    records: CollectionStore
    projections: Projections
    documents: Documents
    artifacts: Artifacts

    async def page(self, collection_id: str, size: int, token: str) -> Page[task_pb2.Subtask]:
        """Subtasks by number."""
        projection = await self._read(collection_id)
        return _page(projection.subtasks, size, token)

    async def documents_page(
        self, collection_id: str, size: int, token: str
    ) -> Page[task_pb2.Document]:
        """Documents with their texts, by number; as many as fit into one message."""
        projection = await self._read(collection_id)
        shown = _page(projection.documents, size, token)
        numbers = [one.number for one in shown.items[:AT_ONCE]]
        found = [one async for one in self.documents.read(projection, numbers)]
        found.sort(key=lambda one: one.number)
        found = found[: fitting((one.ByteSize() for one in found), MAX_PAGE_BYTES)]
        more = found and found[-1].number < len(projection.documents)
        return Page(found, str(found[-1].number) if more else "")

    async def file(
        self, collection_id: str, subtask: int, name: str
    ) -> tuple[task_pb2.ResultFile, AsyncIterator[bytes]]:
        """A file that an executor made, and its bytes."""
        projection = await self._read(collection_id)
        if 0 < subtask <= len(projection.subtasks):
            found = projection.subtasks[subtask - 1]
            for place, file in enumerate(found.files, 1):
                if file.name == name:
                    return file, self.artifacts.read(found.task_id, stored_name(place))
        raise NotFoundError(
            f"subtask {subtask} has no file {name[:100]!r}", reason=Reason.ARTIFACT_NOT_FOUND
        )

    async def _read(self, collection_id: str) -> Projection:
        await self.records.check_visible(collection_id)
        return await self.projections.read(collection_id)


def _page(parts: Sequence[PartT], size: int, token: str) -> Page[PartT]:
    begin = sequence_of(token) or 0
    shown = list(parts[begin : begin + page_size(size)])
    shown = shown[: fitting((one.ByteSize() for one in shown), MAX_PAGE_BYTES)]
    end = begin + len(shown)
    return Page(shown, str(end) if shown and end < len(parts) else "")
