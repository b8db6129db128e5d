"""Captions and the kept audio."""

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

import grpc
from fastapi import APIRouter, Header, Query
from pydantic import BaseModel
from starlette.responses import Response, StreamingResponse

from gateway import heard, telling
from gateway.backend import Orchestrator, understood
from gateway.choices import CaptionQuery, CueQuery, cue_rules
from gateway.face import FaceOf
from gateway.naming import disposition
from gateway.problems import RefusedError, described, respond
from gateway.ranges import OutsideError, Span, wanted
from gateway.routes.jobs import JobId
from gateway.shapes import Cue
from mesh.correlation import call_metadata
from mesh.errors import NotFoundError
from mesh.reasons import Reason
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

router = APIRouter(tags=["files"])

Format = Literal["srt", "vtt", "txt", "json", "tsv", "lrc"]
TEXT_TYPES = {
    "srt": "application/x-subrip",
    "vtt": "text/vtt",
    "txt": "text/plain",
    "json": "application/json",
    "tsv": "text/tab-separated-values",
    "lrc": "application/x-lrc",
}
AUDIO_TYPE = "audio/webm"
_BINARY = {AUDIO_TYPE: {"schema": {"type": "string", "format": "binary"}}}
AUDIO_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The whole file.", "content": _BINARY},
    206: {"description": "The bytes asked for.", "content": _BINARY},
    304: {"description": "The client has it already."},
}


class AudioHeaders(BaseModel):
    """Which bytes the client wants, and what it has."""

    range: str | None = None
    if_range: str | None = None
    if_none_match: str | None = None

    def has(self, etag: str) -> bool:
        """Whether the client has this very file already."""
        tags = (self.if_none_match or "").split(",")
        return etag in [tag.strip().removeprefix("W/") for tag in tags]


def _caption_responses() -> dict[int | str, dict[str, Any]]:
    kinds = {kind: {"schema": {"type": "string"}} for kind in (*TEXT_TYPES.values(), "text/plain")}
    kinds["application/json"] = {"schema": {"type": "object"}}
    return {200: {"description": "The captions.", "content": kinds}}


@router.get(
    "/jobs/{job_id}/captions.{format}",
    responses=_caption_responses() | described(404),
    response_class=Response,
)
async def get_captions(
    job_id: JobId,
    format: Format,
    asked: Annotated[CaptionQuery, Query()],
    face: FaceOf,
) -> Response:
    """The captions as a file; of a job that runs, those heard so far."""
    request = pb.GetCaptionsRequest(
        job_id=job_id,
        format=heard.FORMATS[format],
        cue_rules=cue_rules(asked),
        word_cues=asked.word_cues,
        translated=asked.translated,
    )
    found = await face.orchestrator.ask(face.orchestrator.pipeline.GetCaptions, request)
    fallback = f"{job_id}.{format}"
    headers = {
        "Content-Disposition": disposition(found.file_name, fallback, attachment=asked.download),
        "Cache-Control": "no-cache",
        "X-Captions-Complete": str(found.complete).lower(),
    }
    return Response(found.content, media_type=found.media_type, headers=headers)


@router.get("/jobs/{job_id}/cues", responses=described(404))
async def get_cues(
    job_id: JobId,
    asked: Annotated[CueQuery, Query()],
    face: FaceOf,
) -> list[Cue]:
    """What is on the screen, cue by cue."""
    request = pb.GetCaptionsRequest(
        job_id=job_id, cue_rules=cue_rules(asked), translated=asked.translated
    )
    return heard.cues(await heard.document(face.orchestrator, request))


@router.head(
    "/jobs/{job_id}/audio", responses=AUDIO_RESPONSES | described(404, 416), response_class=Response
)
async def look_at_audio(
    job_id: JobId, face: FaceOf, asked: Annotated[AudioHeaders, Header()]
) -> Response:
    """The headers of the kept audio."""
    answer = await get_audio(job_id, face, asked)
    return Response(status_code=answer.status_code, headers=dict(answer.headers))


@router.get(
    "/jobs/{job_id}/audio", responses=AUDIO_RESPONSES | described(404, 416), response_class=Response
)
async def get_audio(
    job_id: JobId, face: FaceOf, asked: Annotated[AudioHeaders, Header()]
) -> Response:
    """The kept audio, or one range of its bytes."""
    artifact, etag = await _audio(face.orchestrator, job_id)
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": etag,
        "Cache-Control": "no-cache",
        "Content-Disposition": disposition(artifact.name, "audio.webm", attachment=False),
    }
    if asked.has(etag):
        return Response(status_code=304, headers=headers)
    size = artifact.size_bytes
    try:
        span = wanted(asked.range, size) if asked.if_range in (None, etag) else None
    except OutsideError:
        outside = RefusedError(416, f"the file has {size} bytes", field="Range")
        answer = respond(outside)
        answer.headers["Content-Range"] = f"bytes */{size}"
        return answer
    if span is not None:
        headers["Content-Range"] = f"bytes {span.first}-{span.last}/{size}"
    headers["Content-Length"] = str(span.size if span else size)
    return StreamingResponse(
        _bytes(face.orchestrator, job_id, artifact.name, span),
        206 if span else 200,
        media_type=artifact.media_type,
        headers=headers,
    )


async def _audio(orchestrator: Orchestrator, job_id: str) -> tuple[job_pb2.Artifact, str]:
    """The kept audio, and a tag that changes with it."""
    job = await orchestrator.job(job_id)
    artifact = telling.audio_of(job)
    if artifact is None:
        raise NotFoundError("the job keeps no audio", reason=Reason.ARTIFACT_NOT_FOUND)
    return artifact, f'"{job.job_id}.{job.attempt}.{artifact.size_bytes}"'


async def _bytes(
    orchestrator: Orchestrator, job_id: str, name: str, span: Span | None
) -> AsyncIterator[bytes]:
    request = pb.DownloadArtifactRequest(
        job_id=job_id,
        name=name,
        offset_bytes=span.first if span else 0,
        limit_bytes=span.size if span else 0,
    )
    call = orchestrator.pipeline.DownloadArtifact(request, metadata=call_metadata())
    try:
        async for frame in call:
            if frame.WhichOneof("frame") == "chunk":
                yield frame.chunk
    except grpc.aio.AioRpcError as error:
        raise understood(error) from error
    finally:
        call.cancel()
