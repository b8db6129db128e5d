"""What executors work on: the members and documents of their collection, as they are."""

from collections.abc import AsyncIterator, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

from mesh.errors import NotFoundError
from orchestrator.collections.documents import Documents
from orchestrator.collections.members import COMPLETED
from orchestrator.collections.projection import Projection, Projections
from orchestrator.jobs.artifacts import Artifacts
from ytcaption.v1 import collection_pb2, media_pb2, task_pb2
from ytcaption.v1 import executor_service_pb2 as pb

PART_BYTES = 256 * 1024
"""Segments or text in one message."""


@dataclass(frozen=True, slots=True)
class TaskInputs:
    """Reads a collection for one call of an executor."""

    projections: Projections
    artifacts: Artifacts
    documents: Documents

    async def start(self, record: task_pb2.TaskRecord) -> pb.ExecuteStart:
        """The beginning of a call."""
        projection = await self.projections.read(record.collection_id)
        task = record.task
        return pb.ExecuteStart(
            task_id=task.task_id,
            correlation_id=record.correlation_id,
            attempt=task.attempt,
            kind=task.type,
            parameters=task.parameters,
            collection=_shown(projection.collection),
        )

    async def items(
        self, record: task_pb2.TaskRecord, *, segments: bool
    ) -> AsyncIterator[pb.ExecuteRequest]:
        """The member or document the task is about, or all of them."""
        projection = await self.projections.read(record.collection_id)
        member, document = record.task.member, record.task.document
        whole = not member and not document
        for one in projection.members:
            if whole or one.number == member:
                async for request in self._member(one, segments=segments):
                    yield request
        numbers = [one.number for one in projection.documents if whole or one.number == document]
        async for found in self._read(projection, numbers):
            yield pb.ExecuteRequest(document=found)

    def _read(
        self, projection: Projection, numbers: Sequence[int]
    ) -> AsyncIterator[task_pb2.Document]:
        return self.documents.read(projection, numbers)

    async def _member(
        self, member: collection_pb2.Member, *, segments: bool
    ) -> AsyncIterator[pb.ExecuteRequest]:
        transcript = None
        if member.state == COMPLETED:
            try:
                transcript = await self.artifacts.transcript(member.job_id)
            except NotFoundError:  # retention, or an operator, removed it
                transcript = None
        if transcript is None:
            yield pb.ExecuteRequest(missing=member)
            return
        yield pb.ExecuteRequest(member=member)
        for part in _parts(transcript, segments=segments):
            part.member = member.number
            yield pb.ExecuteRequest(segments=part)


def _shown(collection: collection_pb2.Collection) -> collection_pb2.Collection:
    """The collection without what may hold secrets: executors are strangers."""
    shown = deepcopy(collection)
    shown.ClearField("webhook_url")
    shown.options.download.ClearField("proxy")
    return shown


def _parts(transcript: media_pb2.Transcript, *, segments: bool) -> Iterator[pb.MemberSegments]:
    """The transcript in messages of bounded size; at least one."""
    part, size = pb.MemberSegments(), 0
    for segment in transcript.segments:
        length = segment.ByteSize() if segments else len(segment.text.encode())
        if size and size + length > PART_BYTES:
            yield part
            part, size = pb.MemberSegments(), 0
        size += length
        if segments:
            part.segments.append(segment)
        else:
            part.text = f"{part.text} {segment.text.strip()}" if part.text else segment.text.strip()
    yield part
