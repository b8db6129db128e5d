"""What a member's job says about the member."""

from google.protobuf.timestamp import from_current_time
from google.protobuf.timestamp_pb2 import Timestamp

from mesh.errors import MeshError
from orchestrator.collections.discovery import Found
from orchestrator.collections.ledger import (
    CANCELLED,
    COMPLETED,
    FAILED,
    PENDING,
    RUNNING,
    TIMED_OUT,
    MemberStateId,
)
from orchestrator.jobs import TERMINAL
from orchestrator.stages import StateId
from ytcaption.v1 import collection_pb2, job_pb2

ENDS: dict[StateId, MemberStateId] = {
    job_pb2.JOB_STATE_SUCCEEDED: COMPLETED,
    job_pb2.JOB_STATE_FAILED: FAILED,
    job_pb2.JOB_STATE_CANCELLED: CANCELLED,
}


def new_member(number: int, found: Found) -> collection_pb2.Member:
    """As it was found."""
    member = collection_pb2.Member(
        number=number,
        source_url=found.address,
        title=found.media.title,
        upload_date=found.media.upload_date,
        state=PENDING,
    )
    if found.media.HasField("duration"):
        member.duration.CopyFrom(found.media.duration)
    return member


def copy_of(member: collection_pb2.Member) -> collection_pb2.Member:
    """To be changed: the ledger's own only changes with the story."""
    copied = collection_pb2.Member()
    copied.CopyFrom(member)
    return copied


def told_by_job(
    member: collection_pb2.Member, job: job_pb2.Job, deadline: Timestamp | None
) -> collection_pb2.Member | None:
    """The member as its job has it; None if that is nothing worth telling."""
    changed = copy_of(member)
    changed.attempt = job.attempt
    # A list names its recordings; a plain file only has the name of a file.
    changed.title = member.title or job.media.title
    changed.language = job.language or member.language
    changed.upload_date = job.media.upload_date or member.upload_date
    if job.media.HasField("duration"):
        changed.duration.CopyFrom(job.media.duration)
    if job.state in TERMINAL:
        _end(changed, job, deadline)
    elif member.state == TIMED_OUT:  # until it ends, that is what it is
        return None
    else:
        changed.state = RUNNING if job.attempt else PENDING
        for field in ("failure", "end_time", "progress", "late"):  # it may have been replayed
            changed.ClearField(field)
    return changed if _worth_telling(member, changed) else None


def _end(member: collection_pb2.Member, job: job_pb2.Job, deadline: Timestamp | None) -> None:
    member.state = ENDS[job.state]
    member.end_time.CopyFrom(job.end_time)
    member.late = deadline is not None and job.end_time.ToNanoseconds() > deadline.ToNanoseconds()
    if job.HasField("progress"):
        member.progress = job.progress
    member.ClearField("failure")
    if job.state == job_pb2.JOB_STATE_FAILED:
        member.failure.CopyFrom(job.failure)


def _worth_telling(before: collection_pb2.Member, after: collection_pb2.Member) -> bool:
    """The rest rides along with the next change that is."""
    return (before.state, before.attempt, before.title, before.late) != (
        after.state,
        after.attempt,
        after.title,
        after.late,
    )


def ended(member: collection_pb2.Member, state: MemberStateId) -> collection_pb2.Member:
    """The member as it ends without the help of a job."""
    changed = copy_of(member)
    changed.state = state
    changed.end_time.CopyFrom(from_current_time())
    return changed


def never_begun(member: collection_pb2.Member, state: MemberStateId) -> collection_pb2.Member:
    """The same for one whose job was only intended."""
    changed = ended(member, state)
    changed.job_id = ""
    return changed


def refused(member: collection_pb2.Member, error: MeshError) -> collection_pb2.Member:
    """The member whose job was refused for good."""
    changed = never_begun(member, FAILED)
    changed.failure.CopyFrom(
        job_pb2.Failure(reason=error.reason, message=str(error), retryable=error.retryable)
    )
    return changed
