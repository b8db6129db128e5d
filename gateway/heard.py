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


class Texts:
    """The whole text of a job, read once however many ask for it at the same moment."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator
        self._reading: dict[str, asyncio.Task[str]] = {}

    async def of(self, job_id: str) -> str:
        """The text as it is now."""
        reading = self._reading.get(job_id)
        if reading is None:
            reading = self._reading[job_id] = asyncio.ensure_future(self._read(job_id))
            reading.add_done_callback(lambda _: self._reading.pop(job_id, None))
        # Whoever goes away must not take the others' answer along.
        return await asyncio.shield(reading)

    async def _read(self, job_id: str) -> str:
        request = pb.GetCaptionsRequest(job_id=job_id)
        return str((await document(self._orchestrator, request))["text"])
