"""What clients of the earlier system need to see otherwise than others."""

from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel

from gateway.schemas.jobs import JobDetail

Model = TypeVar("Model", bound=BaseModel)


def as_polled(job: JobDetail) -> JobDetail:
    """The job as its pollers know it: they wait for one of two ends, and a cancelled job has one.

    Its `state` still says what happened.
    """
    if job.state != "cancelled":
        return job
    note = f": {job.cancel_note}" if job.cancel_note else ""
    return job.model_copy(update={"status": "failed", "error": f"cancelled{note}"})


def in_old_form(answer: Model, *, naive_timestamps: bool) -> Model:
    """The answer, with times without an offset if the client asks for these."""
    return _naive(answer) if naive_timestamps else answer


def _naive(value: Any) -> Any:
    match value:
        case datetime():
            return value.replace(tzinfo=None)
        case BaseModel():
            return value.model_copy(update={name: _naive(each) for name, each in value})
        case list():
            return [_naive(each) for each in value]
        case dict():
            return {name: _naive(each) for name, each in value.items()}
        case _:
            return value
