"""Presents dead letters and webhook deliveries."""

from typing import Literal

from gateway.presenters.jobs import EPOCH, STAGES, seconds, timestamp
from gateway.schemas import mesh as schemas
from mesh.messages import enum_word
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import job_pb2

KINDS: dict[int, Literal["job", "event", "webhook"]] = {
    job_pb2.LETTER_KIND_JOB: "job",
    job_pb2.LETTER_KIND_EVENT: "event",
    job_pb2.LETTER_KIND_WEBHOOK: "webhook",
}


def dead_letter(found: job_pb2.DeadLetter, job: job_pb2.Job) -> schemas.DeadLetter:
    """Presents a dead letter; `job` is empty if there is none."""
    failure = found.failure
    return schemas.DeadLetter.of(
        found,
        letter_id=found.letter_id or found.job_id,
        kind=KINDS.get(found.kind, "job"),
        reason=failure.reason,
        message=failure.message,
        stage=STAGES.get(failure.stage),
        failed_at=timestamp(found.dead_time) or EPOCH,
        title=job.media.title,
        youtube_url=job.source.url,
        file_name=job.source.upload.file_name,
        retryable=failure.retryable,
    )


def delivery(found: pb.WebhookDelivery) -> schemas.Delivery:
    """Presents a webhook delivery with its attempts."""
    state = found.state or pb.DELIVERY_STATE_PENDING
    return schemas.Delivery.of(
        found,
        state=enum_word(pb.DeliveryState, state),
        attempts=[_attempt(one) for one in found.attempts],
        next_attempt_at=timestamp(found.next_attempt_time),
        created_at=timestamp(found.create_time) or EPOCH,
    )


def _attempt(found: pb.DeliveryAttempt) -> schemas.DeliveryAttempt:
    started_at = timestamp(found.start_time) or EPOCH
    return schemas.DeliveryAttempt.of(found, started_at=started_at, seconds=seconds(found.duration))
