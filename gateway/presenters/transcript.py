"""Presents the transcript of a job: its text, segments and cues, from the JSON captions."""

import asyncio
import json
from typing import Any

from gateway.client import Orchestrator, call
from gateway.presenters import jobs
from gateway.schemas import jobs as schemas
from ytcaption.v1 import job_pb2, media_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

LARGE_BYTES = 256 * 1024
"""Larger documents are parsed in a thread: parsing would block the event loop noticeably."""


async def document(orchestrator: Orchestrator, request: pb.GetCaptionsRequest) -> dict[str, Any]:
    """Fetches the captions as a JSON document."""
    request.format = media_pb2.CAPTION_FORMAT_JSON
    found = await call(orchestrator.pipeline.GetCaptions, request)
    if len(found.content) > LARGE_BYTES:
        return dict(await asyncio.to_thread(json.loads, found.content))
    return dict(json.loads(found.content))


def has_text(job: job_pb2.Job) -> bool:
    """Whether a job can have a transcript."""
    return bool(job.segment_count) or job.state == job_pb2.JOB_STATE_SUCCEEDED


async def detail_with_text(orchestrator: Orchestrator, job: job_pb2.Job) -> schemas.JobDetail:
    """Presents a job in full, with its text and segments so far."""
    detail = jobs.detail(job)
    if not has_text(job):
        return detail
    found = await document(orchestrator, pb.GetCaptionsRequest(job_id=job.job_id))
    detail.transcription_text = found["text"]
    detail.transcription_segments = [
        _segment(index, one, found["language"]) for index, one in enumerate(found["segments"])
    ]
    return detail


def _segment(index: int, one: dict[str, Any], language: str) -> schemas.Segment:
    """Fields the document leaves out have their usual values."""
    usual = {"translation": None, "confidence": None, "uncertain": False, "language": language}
    words = [
        schemas.Word.model_construct(**{"confidence": None, **word})
        for word in one.get("words", ())
    ]
    duration = round(one["end"] - one["start"], 3)
    fields = usual | one | {"index": index, "duration": duration, "words": words}
    return schemas.Segment.model_construct(**fields)


def cues(found: dict[str, Any]) -> list[schemas.Cue]:
    """Presents the cues of a caption document, in order."""
    return [
        schemas.Cue.model_construct(**(one | {"index": index, "lines": one["text"].split("\n")}))
        for index, one in enumerate(found["cues"])
    ]


async def text_of(orchestrator: Orchestrator, job_id: str) -> str:
    """Fetches the text of a job so far."""
    return str((await document(orchestrator, pb.GetCaptionsRequest(job_id=job_id)))["text"])
