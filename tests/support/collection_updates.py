"""Updates of a collection's watch, message by message."""

from datetime import UTC, datetime, timedelta
from typing import Any

from ytcaption.v1 import collection_pb2 as pb
from ytcaption.v1 import collection_service_pb2 as service_pb
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


def running_collection(members: int = 0, **fields: Any) -> pb.Collection:
    found = collection(pb.COLLECTION_STATE_RUNNING, members, title="October", **fields)
    found.deadline.FromDatetime(datetime.now(UTC) + timedelta(minutes=10))
    return found


def updates_of(*updates: pb.Collection | pb.Member | pb.MemberProgress) -> list[Update]:
    """Numbers the stored updates; live progress has no number."""
    event_log, sequence = [], 0
    for update in updates:
        if isinstance(update, pb.MemberProgress):
            event_log.append(Update(progress=update))
            continue
        sequence += 1
        kind = "member" if isinstance(update, pb.Member) else "collection"
        event_log.append(Update(sequence=sequence, **{kind: update}))  # type: ignore[arg-type]
    return event_log


def live(number: int, progress: float) -> pb.MemberProgress:
    return pb.MemberProgress(number=number, progress=progress)


COMPLETE = updates_of(
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
PARTIAL = updates_of(
    member(1, COMPLETED),
    member(2, FAILED, failure=PRIVATE),
    collection(pb.COLLECTION_STATE_PARTIAL, 2),
    collection(pb.COLLECTION_STATE_PARTIAL, 2, settled=True),
)
LATE = updates_of(
    member(1, COMPLETED),
    member(2, RUNNING),
    member(2, TIMED_OUT),
    collection(pb.COLLECTION_STATE_PARTIAL, 2),
    live(2, 0.9),
    member(2, COMPLETED, late=True),
    collection(pb.COLLECTION_STATE_COMPLETE, 2),
    collection(pb.COLLECTION_STATE_COMPLETE, 2, settled=True),
)
