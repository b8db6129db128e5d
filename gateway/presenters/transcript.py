"""What was heard, read from the JSON captions of a job."""

import asyncio
import json
from typing import Any

from gateway import shapes
from gateway.backend import UNARY_SECONDS, Orchestrator
from ytcaption.v1 import job_pb2, media_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

LARGE_BYTES = 256 * 1024
"""From here on reading JSON takes long enough to be felt by others."""

FORMATS = {
    name: media_pb2.CaptionFormat.Value(f"CAPTION_FORMAT_{name.upper()}")
    for name in shapes.CAPTION_FORMATS
}


async def document(orchestrator: Orchestrator, request: pb.GetCaptionsRequest) -> dict[str, Any]:
    """The captions as a program wants them."""
    request.format = media_pb2.CAPTION_FORMAT_JSON
    found = await orchestrator.ask(orchestrator.pipeline.GetCaptions, request, UNARY_SECONDS)
    if len(found.content) > LARGE_BYTES:
        return dict(await asyncio.to_thread(json.loads, found.content))
    return dict(json.loads(found.content))


def has_text(job: job_pb2.Job) -> bool:
    """Whether anything can have been heard."""
    return bool(job.segment_count) or job.state == job_pb2.JOB_STATE_SUCCEEDED


async def add_text(orchestrator: Orchestrator, job: job_pb2.Job, told: shapes.Detail) -> None:
    """The text so far, and its segments."""
    if not has_text(job):
        return
    found = await document(orchestrator, pb.GetCaptionsRequest(job_id=job.job_id))
    told.transcription_text = found["text"]
    told.transcription_segments = [
        _segment(index, one, found["language"]) for index, one in enumerate(found["segments"])
    ]


def _segment(index: int, one: dict[str, Any], language: str) -> shapes.Segment:
    return shapes.Segment.model_construct(
        index=index,
        text=one["text"],
        start=one["start"],
        end=one["end"],
        duration=round(one["end"] - one["start"], 3),
        translation=one.get("translation"),
        confidence=one.get("confidence"),
        language=one.get("language", language),
        words=[
            shapes.Word.model_construct(
                text=word["text"],
                start=word["start"],
                end=word["end"],
                confidence=word.get("confidence"),
            )
            for word in one.get("words", ())
        ],
    )


def cues(found: dict[str, Any]) -> list[shapes.Cue]:
    """What is on the screen, in order."""
    return [
        shapes.Cue.model_construct(
            index=index,
            start=one["start"],
            end=one["end"],
            lines=one["text"].split("\n"),
            text=one["text"],
        )
        for index, one in enumerate(found["cues"])
    ]


async def text_of(orchestrator: Orchestrator, job_id: str) -> str:
    """The whole text as it is now."""
    return str((await document(orchestrator, pb.GetCaptionsRequest(job_id=job_id)))["text"])
