"""Collections as the contracts have them, told as callers of the HTTP face get them."""

from datetime import UTC, datetime
from typing import Any

from gateway import collection_shapes as shapes
from gateway.choices import chosen_in
from gateway.telling import failure, moment, percent, seconds, word
from ytcaption.v1 import admin_service_pb2, collection_pb2, job_pb2

EPOCH = datetime.fromtimestamp(0, UTC)


def collection(found: collection_pb2.Collection) -> shapes.Collection:
    """Everything but its members."""
    return shapes.Collection.model_construct(**_collection(found))


def detail(
    found: collection_pb2.Collection, members: list[shapes.Member], next_page_token: str
) -> shapes.CollectionDetail:
    """With one page of its members."""
    return shapes.CollectionDetail.model_construct(
        **_collection(found), members=members, next_page_token=next_page_token
    )


def _collection(found: collection_pb2.Collection) -> dict[str, Any]:
    created = moment(found.create_time) or EPOCH
    return {
        "collection_id": found.collection_id,
        "title": found.title,
        "state": state_word(found.state or collection_pb2.COLLECTION_STATE_RUNNING),
        "settled": found.settled,
        "sources": list(found.sources),
        "listings": [_listing(one) for one in found.listings],
        "discovery_complete": found.discovery_complete,
        "member_count": found.member_count,
        "counts": _counts(found),
        "late_count": found.late_count,
        "created_at": created,
        "updated_at": moment(found.update_time) or created,
        "deadline": moment(found.deadline),
        "gathered_at": moment(found.end_time),
        "from_date": found.from_date,
        "to_date": found.to_date,
        "max_in_flight": found.max_in_flight,
        "options": chosen_in(found.options),
        "priority": word(found.priority or job_pb2.PRIORITY_NORMAL, job_pb2.Priority, "PRIORITY_"),
        "caller": found.caller,
        "webhook_url": found.webhook_url,
        "cancel_note": found.cancel_note or None,
        "correlation_id": found.correlation_id,
        "can_cancel": not found.settled
        and found.state != collection_pb2.COLLECTION_STATE_CANCELLED,
    }


def state_word(state: int) -> str:
    """Where a collection stands."""
    return word(state, collection_pb2.CollectionState, "COLLECTION_STATE_")


def _counts(found: collection_pb2.Collection) -> shapes.Counts:
    counted = {_member_word(one.state): one.count for one in found.counts}
    return shapes.Counts(**{name: counted.get(name, 0) for name in shapes.Counts.model_fields})


def _member_word(state: int) -> str:
    return word(state, collection_pb2.MemberState, "MEMBER_STATE_")


def _listing(found: collection_pb2.Listing) -> shapes.Listing:
    return shapes.Listing.model_construct(
        source=found.source,
        complete=found.complete,
        found=found.found,
        failure=failure(found.failure) if found.HasField("failure") else None,
    )


def member(found: collection_pb2.Member) -> shapes.Member:
    """One recording."""
    state: Any = _member_word(found.state or collection_pb2.MEMBER_STATE_PENDING)
    return shapes.Member.model_construct(
        number=found.number,
        job_id=found.job_id or None,
        source_url=found.source_url,
        title=found.title,
        state=state,
        progress=share(found),
        failure=failure(found.failure) if found.HasField("failure") else None,
        late=found.late,
        duration_seconds=seconds(found.duration) if found.HasField("duration") else None,
        language=found.language or None,
        upload_date=found.upload_date or None,
        attempt=found.attempt,
        ended_at=moment(found.end_time),
    )


def share(found: "collection_pb2.Member | collection_pb2.MemberProgress") -> float | None:
    """How much of a recording is heard; None while nobody knows its length."""
    return percent(found.progress) if found.HasField("progress") else None


def delivery(found: admin_service_pb2.WebhookDelivery) -> shapes.Delivery:
    """A webhook and what became of it."""
    state: Any = word(
        found.state or admin_service_pb2.DELIVERY_STATE_PENDING,
        admin_service_pb2.DeliveryState,
        "DELIVERY_STATE_",
    )
    return shapes.Delivery.model_construct(
        event_id=found.event_id,
        type=found.type,
        url=found.url,
        job_id=found.job_id or None,
        collection_id=found.collection_id or None,
        state=state,
        attempts=[_attempt(one) for one in found.attempts],
        next_attempt_at=moment(found.next_attempt_time),
        created_at=moment(found.create_time) or EPOCH,
    )


def _attempt(found: admin_service_pb2.DeliveryAttempt) -> shapes.DeliveryAttempt:
    return shapes.DeliveryAttempt.model_construct(
        number=found.number,
        started_at=moment(found.start_time) or EPOCH,
        seconds=seconds(found.duration),
        status=found.status or None,
        error=found.error or None,
    )
