"""A CollectionService that follows a script, and the stories it tells."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc

from mesh.errors import MeshError, NotFoundError
from mesh.reasons import Reason
from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import collection_service_pb2 as service_pb
from ytcaption.v1 import collection_service_pb2_grpc as rpc
from ytcaption.v1 import job_pb2 as job_pb

LIST = "https://example.net/list"
COLLECTION_ID = "0199bbbb-0000-7000-8000-000000000001"
Update = service_pb.WatchCollectionResponse

PENDING, RUNNING, COMPLETED, FAILED, TIMED_OUT, CANCELLED = (
    pb.MEMBER_STATE_PENDING,
    pb.MEMBER_STATE_RUNNING,
    pb.MEMBER_STATE_COMPLETED,
    pb.MEMBER_STATE_FAILED,
    pb.MEMBER_STATE_TIMED_OUT,
    pb.MEMBER_STATE_CANCELLED,
)
PRIVATE = job_pb.Failure(reason="VIDEO_PRIVATE", message="the video is private")


def member(number: int, state: pb.MemberState.ValueType, **fields: Any) -> pb.Member:
    fields.setdefault("title", f"Talk {number}")
    fields.setdefault("job_id", f"job-{number}")
    return pb.Member(
        number=number, state=state, source_url=f"https://example.net/{number}", **fields
    )


def collection(state: pb.CollectionState.ValueType, members: int, **fields: Any) -> pb.Collection:
    ended = state != pb.COLLECTION_STATE_RUNNING
    found = pb.Collection(
        collection_id=COLLECTION_ID,
        state=state,
        member_count=members,
        sources=["https://example.net/list"],
        discovery_complete=True,
        **fields,
    )
    if ended:
        found.end_time.FromDatetime(datetime.now(UTC))
    return found


def going_on(members: int = 0, **fields: Any) -> pb.Collection:
    found = collection(pb.COLLECTION_STATE_RUNNING, members, title="October", **fields)
    found.deadline.FromDatetime(datetime.now(UTC) + timedelta(minutes=10))
    return found


def told(*updates: pb.Collection | pb.Member | pb.MemberProgress) -> list[Update]:
    """Stored ones get their numbers, live figures none."""
    story, sequence = [], 0
    for update in updates:
        if isinstance(update, pb.MemberProgress):
            story.append(Update(progress=update))
            continue
        sequence += 1
        kind = "member" if isinstance(update, pb.Member) else "collection"
        story.append(Update(sequence=sequence, **{kind: update}))  # type: ignore[arg-type]
    return story


def live(number: int, share: float) -> pb.MemberProgress:
    return pb.MemberProgress(number=number, progress=share)


COMPLETE = told(
    member(1, PENDING),
    member(2, PENDING),
    member(1, RUNNING),
    live(1, 0.5),
    member(1, COMPLETED),
    member(2, RUNNING),
    member(2, COMPLETED),
    collection(pb.COLLECTION_STATE_COMPLETE, 2),
    collection(pb.COLLECTION_STATE_COMPLETE, 2, settled=True),
)
PARTIAL = told(
    member(1, COMPLETED),
    member(2, FAILED, failure=PRIVATE),
    collection(pb.COLLECTION_STATE_PARTIAL, 2),
    collection(pb.COLLECTION_STATE_PARTIAL, 2, settled=True),
)
LATE = told(
    member(1, COMPLETED),
    member(2, RUNNING),
    member(2, TIMED_OUT),
    collection(pb.COLLECTION_STATE_PARTIAL, 2),
    live(2, 0.9),
    member(2, COMPLETED, late=True),
    collection(pb.COLLECTION_STATE_COMPLETE, 2),
    collection(pb.COLLECTION_STATE_COMPLETE, 2, settled=True),
)


class ScriptedCollections(rpc.CollectionServiceServicer):
    """Tells its story as the contract says, and remembers what it was asked."""

    def __init__(self, story: Iterable[Update] = COMPLETE) -> None:
        self.story = list(story)
        self.cut_after: list[int] = []
        """Each watch is cut off after so many stored updates, until the list is empty."""

        self.stays_open_after: int | None = None
        """A watch says nothing more after so many updates."""

        self.snapshot = going_on()
        self.refusal: MeshError | None = None
        self.report = b"%REPORT\xff"
        self.report_name = "October.pdf"
        self.listed: list[pb.Collection] = []
        self.members: list[pb.Member] = []
        self.created: list[service_pb.CreateCollectionRequest] = []
        self.watches: list[int] = []
        self.cancelled: list[service_pb.CancelCollectionRequest] = []
        self.cancels_answer = True
        self.deleted: list[str] = []
        self.reports: list[service_pb.GetReportRequest] = []
        self.pages: list[service_pb.GetCollectionRequest] = []

    def _find(self, collection_id: str) -> None:
        if collection_id != COLLECTION_ID:
            message = f"no collection {collection_id}"
            raise NotFoundError(message, reason=Reason.COLLECTION_NOT_FOUND)

    async def CreateCollection(  # noqa: N802
        self, request: service_pb.CreateCollectionRequest, context: Any
    ) -> service_pb.CreateCollectionResponse:
        if self.refusal is not None:
            raise self.refusal
        self.created.append(request)
        return service_pb.CreateCollectionResponse(collection=self.snapshot)

    async def GetCollection(  # noqa: N802
        self, request: service_pb.GetCollectionRequest, context: Any
    ) -> service_pb.GetCollectionResponse:
        self._find(request.collection_id)
        self.pages.append(request)
        begin = int(request.page_token or 0)
        end = begin + min(request.page_size, 200)
        more = str(end) if end < len(self.members) else ""
        return service_pb.GetCollectionResponse(
            collection=self.snapshot, members=self.members[begin:end], next_page_token=more
        )

    async def ListCollections(  # noqa: N802
        self, request: service_pb.ListCollectionsRequest, context: Any
    ) -> service_pb.ListCollectionsResponse:
        begin = int(request.page_token or 0)
        end = begin + min(request.page_size, 2)
        more = str(end) if end < len(self.listed) else ""
        return service_pb.ListCollectionsResponse(
            collections=self.listed[begin:end], next_page_token=more
        )

    async def WatchCollections(  # noqa: N802
        self, request: service_pb.WatchCollectionsRequest, context: Any
    ) -> AsyncIterator[service_pb.WatchCollectionsResponse]:
        for end in range(len(self.listed) + 1):
            yield service_pb.WatchCollectionsResponse(collections=self.listed[:end])
        await asyncio.Event().wait()

    async def WatchCollection(  # noqa: N802
        self, request: service_pb.WatchCollectionRequest, context: Any
    ) -> AsyncIterator[Update]:
        self._find(request.collection_id)
        self.watches.append(request.after_sequence)
        yield Update(collection=self.snapshot)
        left = self.cut_after.pop(0) if self.cut_after else None
        for place, update in enumerate(self.story):
            if place == self.stays_open_after:
                await asyncio.Event().wait()
            if update.sequence and update.sequence <= request.after_sequence:
                continue
            if left == 0:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "going away")
            yield update
            left = None if left is None else left - bool(update.sequence)

    async def CancelCollection(  # noqa: N802
        self, request: service_pb.CancelCollectionRequest, context: Any
    ) -> service_pb.CancelCollectionResponse:
        self._find(request.collection_id)
        self.cancelled.append(request)
        if not self.cancels_answer:
            await asyncio.Event().wait()
        done = collection(pb.COLLECTION_STATE_CANCELLED, 2, cancel_note=request.note)
        return service_pb.CancelCollectionResponse(collection=done)

    async def DeleteCollection(  # noqa: N802
        self, request: service_pb.DeleteCollectionRequest, context: Any
    ) -> service_pb.DeleteCollectionResponse:
        self._find(request.collection_id)
        self.deleted.append(request.collection_id)
        return service_pb.DeleteCollectionResponse(jobs_removed=2)

    async def GetReport(  # noqa: N802
        self, request: service_pb.GetReportRequest, context: Any
    ) -> AsyncIterator[service_pb.GetReportResponse]:
        self._find(request.collection_id)
        self.reports.append(request)
        yield service_pb.GetReportResponse(
            chunk=self.report[:3], media_type="application/pdf", file_name=self.report_name
        )
        yield service_pb.GetReportResponse(chunk=self.report[3:])
