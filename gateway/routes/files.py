"""Routes of caption files, cues and the kept audio."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel
from starlette.responses import Response, StreamingResponse

from gateway.client import Orchestrator, call, frames
from gateway.deps import Deps
from gateway.http.file_responses import (
    ByteRange,
    RangeNotSatisfiableError,
    content_disposition,
    parse_range,
)
from gateway.http.parameters import JobId
from gateway.http.problems import RefusedError, problem_responses, respond
from gateway.presenters import transcript
from gateway.presenters.jobs import audio_artifact
from gateway.schemas.jobs import Cue
from gateway.schemas.options import (
    CaptionFormat,
    CaptionQuery,
    CueQuery,
    caption_format,
    cue_rules,
)
from mesh.correlation import call_metadata
from mesh.errors import NotFoundError
from mesh.reasons import Reason
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

router = APIRouter(tags=["files"])

CAPTION_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The captions, in the media type `/capabilities` lists for the format.",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "application/*": {"schema": {"type": "string"}},
            "text/*": {"schema": {"type": "string"}},
        },
    }
}
AUDIO_TYPE = "audio/webm"
_BINARY = {AUDIO_TYPE: {"schema": {"type": "string", "format": "binary"}}}
AUDIO_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The whole file.", "content": _BINARY},
    206: {"description": "The bytes asked for.", "content": _BINARY},
    304: {"description": "The client has it already."},
    **problem_responses(404, 416),
}


class AudioHeaders(BaseModel):
    """Conditional and range headers of an audio request."""

    range: str | None = None
    if_range: str | None = None
    if_none_match: str | None = None

    def has(self, etag: str) -> bool:
        """Whether the client's copy is current."""
        tags = (self.if_none_match or "").split(",")
        return etag in [tag.strip().removeprefix("W/") for tag in tags]


@router.get(
    "/jobs/{job_id}/captions.{format}",
    responses=CAPTION_RESPONSES | problem_responses(404),
    response_class=Response,
)
async def get_captions(
    job_id: JobId,
    format: CaptionFormat,
    asked: Annotated[CaptionQuery, Query()],
    deps: Deps,
) -> Response:
    """The captions as a file; while the job runs, those transcribed so far."""
    request = pb.GetCaptionsRequest(
        job_id=job_id,
        format=caption_format(format),
        cue_rules=cue_rules(asked),
        word_cues=asked.word_cues,
        translated=asked.translated,
    )
    found = await call(deps.orchestrator.pipeline.GetCaptions, request)
    fallback = f"{job_id}.{format}"
    headers = {
        "Content-Disposition": content_disposition(
            found.file_name, fallback, attachment=asked.download
        ),
        "X-Captions-Complete": str(found.complete).lower(),
    }
    return Response(found.content, media_type=found.media_type, headers=headers)


@router.get("/jobs/{job_id}/cues", responses=problem_responses(404))
async def get_cues(
    job_id: JobId,
    asked: Annotated[CueQuery, Query()],
    deps: Deps,
) -> list[Cue]:
    """The captions cue by cue, as JSON."""
    request = pb.GetCaptionsRequest(
        job_id=job_id, cue_rules=cue_rules(asked), translated=asked.translated
    )
    return transcript.cues(await transcript.document(deps.orchestrator, request))


@router.head("/jobs/{job_id}/audio", responses=AUDIO_RESPONSES, response_class=Response)
async def look_at_audio(
    job_id: JobId, deps: Deps, asked: Annotated[AudioHeaders, Header()]
) -> Response:
    """The headers of the kept audio."""
    answer = await get_audio(job_id, deps, asked)
    return Response(status_code=answer.status_code, headers=dict(answer.headers))


@router.get("/jobs/{job_id}/audio", responses=AUDIO_RESPONSES, response_class=Response)
async def get_audio(
    job_id: JobId, deps: Deps, asked: Annotated[AudioHeaders, Header()]
) -> Response:
    """The kept audio, or one range of its bytes."""
    artifact, etag = await _audio(deps.orchestrator, job_id)
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": etag,
        "Content-Disposition": content_disposition(artifact.name, "audio.webm", attachment=False),
    }
    if asked.has(etag):
        return Response(status_code=304, headers=headers)
    size = artifact.size_bytes
    try:
        span = parse_range(asked.range, size) if asked.if_range in (None, etag) else None
    except RangeNotSatisfiableError:
        outside = RefusedError(416, f"the file has {size} bytes", field="Range")
        answer = respond(outside)
        answer.headers["Content-Range"] = f"bytes */{size}"
        return answer
    if span is not None:
        headers["Content-Range"] = f"bytes {span.first}-{span.last}/{size}"
    headers["Content-Length"] = str(span.size if span else size)
    return StreamingResponse(
        _bytes(deps.orchestrator, job_id, artifact.name, span),
        206 if span else 200,
        media_type=artifact.media_type,
        headers=headers,
    )


async def _audio(orchestrator: Orchestrator, job_id: str) -> tuple[job_pb2.Artifact, str]:
    """The kept audio, and an entity tag that changes with it."""
    job = await orchestrator.job(job_id)
    artifact = audio_artifact(job)
    if artifact is None:
        raise NotFoundError("the job keeps no audio", reason=Reason.ARTIFACT_NOT_FOUND)
    return artifact, f'"{job.job_id}.{job.attempt}.{artifact.size_bytes}"'


async def _bytes(
    orchestrator: Orchestrator, job_id: str, name: str, span: ByteRange | None
) -> AsyncIterator[bytes]:
    request = pb.DownloadArtifactRequest(
        job_id=job_id,
        name=name,
        offset_bytes=span.first if span else 0,
        limit_bytes=span.size if span else 0,
    )
    download = orchestrator.pipeline.DownloadArtifact(request, metadata=call_metadata())
    async with aclosing(frames(download)) as found:
        async for frame in found:
            if frame.WhichOneof("frame") == "chunk":
                yield frame.chunk
