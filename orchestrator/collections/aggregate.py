"""A collection of the contracts as reports know it."""

from collections.abc import Sequence
from datetime import UTC, datetime

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from mesh.languages import tag_of
from reports.model import Collection, Failure, Listing, Member, MemberState, State
from ytcaption.v1 import collection_pb2, job_pb2


def aggregate(
    collection: collection_pb2.Collection,
    members: Sequence[collection_pb2.Member],
    report_time: datetime,
) -> Collection:
    """Everything but the texts."""
    state = collection_pb2.CollectionState.Name(collection.state)
    return Collection(
        collection_id=collection.collection_id,
        correlation_id=collection.correlation_id,
        state=State(state.removeprefix("COLLECTION_STATE_")),
        report_time=report_time,
        create_time=collection.create_time.ToDatetime(UTC),
        members=tuple(map(_member, members)),
        title=collection.title,
        sources=tuple(collection.sources),
        settled=collection.settled,
        discovery_complete=collection.discovery_complete,
        deadline=_time(collection, "deadline"),
        end_time=_time(collection, "end_time"),
        late_count=collection.late_count,
        listings=tuple(map(_listing, collection.listings)),
        caller=collection.caller,
        from_date=collection.from_date,
        to_date=collection.to_date,
        cancel_note=collection.cancel_note,
        language_out=tag_of(collection.options.language_out),
    )


def _member(member: collection_pb2.Member) -> Member:
    state = collection_pb2.MemberState.Name(member.state)
    length = member.duration.ToTimedelta().total_seconds()
    return Member(
        number=member.number,
        url=member.source_url,
        state=MemberState(state.removeprefix("MEMBER_STATE_")),
        title=member.title,
        job_id=member.job_id,
        duration_seconds=length if member.HasField("duration") else None,
        language=member.language,
        upload_date=member.upload_date,
        late=member.late,
        attempt=member.attempt,
        end_time=_time(member, "end_time"),
        failure=_failure(member.failure) if member.HasField("failure") else None,
    )


def _listing(listing: collection_pb2.Listing) -> Listing:
    return Listing(
        source=listing.source,
        complete=listing.complete,
        found=listing.found,
        failure=_failure(listing.failure) if listing.HasField("failure") else None,
    )


def _failure(failure: job_pb2.Failure) -> Failure:
    stage = job_pb2.Stage.Name(failure.stage).removeprefix("STAGE_")
    return Failure(
        reason=failure.reason,
        message=failure.message,
        stage="" if stage == "UNSPECIFIED" else stage,
        retryable=failure.retryable,
        attempt=failure.attempt,
    )


def _time(of: Message, name: str) -> datetime | None:
    if not of.HasField(name):
        return None
    time: Timestamp = getattr(of, name)
    return time.ToDatetime(UTC)
