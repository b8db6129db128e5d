"""Presents collections and their members."""

from typing import Any
from urllib.parse import quote

from google.protobuf.json_format import MessageToDict

from gateway.presenters.jobs import EPOCH, failure, percent, seconds, timestamp
from gateway.schemas import collections as schemas
from gateway.schemas.options import options_of
from mesh.messages import enum_word
from ytcaption.v1 import collection_pb2, job_pb2, task_pb2
from ytcaption.v1 import collection_service_pb2 as pb


def collection(found: collection_pb2.Collection) -> schemas.Collection:
    """Presents a collection without its members."""
    return schemas.Collection.of(found, **_converted(found))


def detail(page: pb.GetCollectionResponse) -> schemas.CollectionDetail:
    """Presents a collection with one page of its members."""
    return schemas.CollectionDetail.of(
        page.collection,
        **_converted(page.collection),
        members=[member(one) for one in page.members],
        next_page_token=page.next_page_token,
    )


def _converted(found: collection_pb2.Collection) -> dict[str, Any]:
    created = timestamp(found.create_time) or EPOCH
    return {
        "state": enum_word(
            collection_pb2.CollectionState, found.state or collection_pb2.COLLECTION_STATE_RUNNING
        ),
        "listings": [_listing(one) for one in found.listings],
        "counts": _counts(found),
        "created_at": created,
        "updated_at": timestamp(found.update_time) or created,
        "deadline": timestamp(found.deadline),
        "gathered_at": timestamp(found.end_time),
        "options": options_of(found.options),
        "priority": enum_word(job_pb2.Priority, found.priority or job_pb2.PRIORITY_NORMAL),
        "can_cancel": not found.settled
        and found.state != collection_pb2.COLLECTION_STATE_CANCELLED,
    }


def _counts(found: collection_pb2.Collection) -> schemas.Counts:
    counts = {_member_state(one.state): one.count for one in found.counts}
    return schemas.Counts(**{name: counts.get(name, 0) for name in schemas.Counts.model_fields})


def _member_state(state: int) -> str:
    return enum_word(collection_pb2.MemberState, state)


def _listing(found: collection_pb2.Listing) -> schemas.Listing:
    failed = failure(found.failure) if found.HasField("failure") else None
    return schemas.Listing.of(found, failure=failed)


def member(found: collection_pb2.Member) -> schemas.Member:
    """Presents one recording of a collection."""
    return schemas.Member.of(
        found,
        state=_member_state(found.state or collection_pb2.MEMBER_STATE_PENDING),
        progress=_member_percent(found),
        failure=failure(found.failure) if found.HasField("failure") else None,
        duration_seconds=seconds(found.duration) if found.HasField("duration") else None,
        ended_at=timestamp(found.end_time),
    )


def subtask(found: task_pb2.Subtask, collection_id: str) -> schemas.Subtask:
    """Presents a call of a collector or an executor."""
    return schemas.Subtask.of(
        found,
        role=enum_word(task_pb2.TaskRole, found.role),
        parameters=MessageToDict(found.parameters),
        state=enum_word(task_pb2.SubtaskState, found.state or task_pb2.SUBTASK_STATE_PENDING),
        progress=percent(found.progress) if found.HasField("progress") else None,
        failure=failure(found.failure) if found.HasField("failure") else None,
        member=found.member or None,
        document=found.document or None,
        result=MessageToDict(found.result) if found.HasField("result") else None,
        files=[
            schemas.ResultFile.of(
                one,
                url=f"/collections/{collection_id}/subtasks/{found.number}/files/"
                f"{quote(one.name, safe='')}",
            )
            for one in found.files
        ],
        ended_at=timestamp(found.end_time),
    )


def document(found: task_pb2.Document) -> schemas.Document:
    """Presents a text that a collector found."""
    return schemas.Document.of(found, metadata=MessageToDict(found.metadata))


def member_progress(found: collection_pb2.MemberProgress) -> dict[str, object]:
    """Presents the live progress of a member."""
    return {
        "number": found.number,
        "job_id": found.job_id or None,
        "progress": _member_percent(found),
    }


def _member_percent(
    found: "collection_pb2.Member | collection_pb2.MemberProgress",
) -> float | None:
    """None while the duration of the recording is unknown."""
    return percent(found.progress) if found.HasField("progress") else None


def collection_list(
    page: pb.ListCollectionsResponse | pb.WatchCollectionsResponse,
) -> schemas.CollectionList:
    """Presents one page of collections."""
    return schemas.CollectionList(
        collections=[collection(one) for one in page.collections],
        next_page_token=page.next_page_token,
    )
