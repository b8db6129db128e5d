"""The states of a collection's members, and how a member changes as its job runs and ends."""

from copy import deepcopy
from operator import attrgetter
from typing import TypeAlias

from google.protobuf.timestamp import from_current_time
from google.protobuf.timestamp_pb2 import Timestamp

from mesh.errors import MeshError
from mesh.watching import TERMINAL
from orchestrator.pipeline.stages import StateId, failure_of
from ytcaption.v1 import collection_pb2, job_pb2

MemberStateId: TypeAlias = "collection_pb2.MemberState.ValueType"

PENDING = collection_pb2.MEMBER_STATE_PENDING
RUNNING = collection_pb2.MEMBER_STATE_RUNNING
COMPLETED = collection_pb2.MEMBER_STATE_COMPLETED
FAILED = collection_pb2.MEMBER_STATE_FAILED
TIMED_OUT = collection_pb2.MEMBER_STATE_TIMED_OUT
CANCELLED = collection_pb2.MEMBER_STATE_CANCELLED
ENDED = frozenset({COMPLETED, FAILED, TIMED_OUT, CANCELLED})
ENDS: dict[StateId, MemberStateId] = {
    job_pb2.JOB_STATE_SUCCEEDED: COMPLETED,
    job_pb2.JOB_STATE_FAILED: FAILED,
    job_pb2.JOB_STATE_CANCELLED: CANCELLED,
}


def awaits_its_job(member: collection_pb2.Member) -> bool:
    """Whether the member has a job that may still change it."""
    unfinished = member.state in (PENDING, RUNNING)
    return bool(member.job_id) and (
        unfinished or (member.state == TIMED_OUT and not member.HasField("end_time"))
    )


def updated_from_job(
    member: collection_pb2.Member, job: job_pb2.Job, deadline: Timestamp | None
) -> collection_pb2.Member | None:
    """The member as its job has it; None if no event is needed."""
    changed = deepcopy(member)  # the projection's own changes only with the event log
    changed.attempt = job.attempt
    # The title of a listing is better than that of a plain file, its file name.
    changed.title = member.title or job.media.title
    changed.language = job.language or member.language
    changed.upload_date = job.media.upload_date or member.upload_date
    if job.media.HasField("duration"):
        changed.duration.CopyFrom(job.media.duration)
    if job.state in TERMINAL:
        _end(changed, job, deadline)
    elif member.state == TIMED_OUT:  # until the job ends
        return None
    else:
        changed.state = RUNNING if job.attempt else PENDING
        for field in ("failure", "end_time", "progress", "late"):  # it may have been replayed
            changed.ClearField(field)
    return changed if _needs_event(member, changed) else None


def _end(member: collection_pb2.Member, job: job_pb2.Job, deadline: Timestamp | None) -> None:
    member.state = ENDS[job.state]
    member.end_time.CopyFrom(job.end_time)
    member.late = deadline is not None and job.end_time.ToNanoseconds() > deadline.ToNanoseconds()
    if job.HasField("progress"):
        member.progress = job.progress
    member.ClearField("failure")
    if job.state == job_pb2.JOB_STATE_FAILED:
        member.failure.CopyFrom(job.failure)


def _needs_event(before: collection_pb2.Member, after: collection_pb2.Member) -> bool:
    """Other fields are written with the next change of these."""
    shown = attrgetter("state", "attempt", "title", "late")
    return bool(shown(before) != shown(after))


def ended(member: collection_pb2.Member, state: MemberStateId) -> collection_pb2.Member:
    """The member ended without a job's result."""
    changed = deepcopy(member)
    changed.state = state
    changed.end_time.CopyFrom(from_current_time())
    return changed


def never_begun(member: collection_pb2.Member, state: MemberStateId) -> collection_pb2.Member:
    """The member ended before its intended job was created."""
    changed = ended(member, state)
    changed.job_id = ""
    return changed


def refused(member: collection_pb2.Member, error: MeshError) -> collection_pb2.Member:
    """The member whose job was refused permanently."""
    changed = never_begun(member, FAILED)
    changed.failure.CopyFrom(failure_of(error))
    return changed
