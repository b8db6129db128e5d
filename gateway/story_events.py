"""Single server-sent events: their names, ids and data."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from gateway import shapes, telling
from ytcaption.v1 import event_pb2, job_pb2, media_pb2

BEGINNING = b"retry: 1000\n\n"
HEARTBEAT = b": still here\n\n"
KEPT_FIGURES = 256
Data = BaseModel | Mapping[str, object]


def sent(name: str, data: Data, *, sequence: int = 0, exclude: set[str] | None = None) -> bytes:
    """One event; JSON has no line breaks, so its data is one line."""
    text = (
        data.model_dump_json(exclude=exclude)
        if isinstance(data, BaseModel)
        else json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=_plain)
    )
    # Only stored events have an id: what has none leaves the client's place as it is.
    place = f"id: {sequence}\n" if sequence else ""
    return f"event: {name}\n{place}data: {text}\n\n".encode()


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return value.isoformat().replace("+00:00", "Z")  # as everywhere else


def finished(sequence: int, detail: shapes.Detail) -> bytes:
    """The last event of a stream."""
    return sent("finished", detail, sequence=sequence, exclude={"transcription_segments"})


@lru_cache(maxsize=KEPT_FIGURES)
def figures(job_id: str, progress: bytes) -> bytes:
    """Live figures; a crowd that watches one job shares the work of writing them down."""
    found = job_pb2.JobProgress.FromString(progress)
    told = shapes.Figures.model_construct(
        overall_progress=telling.percent(found.progress),
        status=telling.status_word(job_pb2.JOB_STATE_RUNNING, found.stages),
        stages=telling.stages(job_id, found.stages),
    )
    return sent("progress", told)


def stored(job_id: str, sequence: int, event: event_pb2.Event) -> bytes:
    """An event of the story."""
    match event.WhichOneof("payload"):
        case "segment_settled":
            return sent("segment", segment(event.segment_settled.segment), sequence=sequence)
        case "stage_changed":
            changed = event.stage_changed.stage
            now = telling.stage(job_id, changed)
            name = telling.STAGES.get(changed.stage, "")
            data = {"stage": name, "status": now.status, "detail": now}
            return sent("stage", data, sequence=sequence)
        case _:
            return sent("story", _story(event), sequence=sequence)


def segment(found: media_pb2.Segment) -> shapes.Segment:
    """Text that was just settled."""
    start, end = telling.seconds(found.start_offset), telling.seconds(found.end_offset)
    return shapes.Segment.model_construct(
        index=found.index,
        text=found.text,
        start=start,
        end=end,
        duration=round(end - start, 3),
        translation=found.translation or None,
        confidence=round(found.confidence, 4) if found.HasField("confidence") else None,
        language=found.language,
        words=[
            shapes.Word.model_construct(
                text=word.text,
                start=telling.seconds(word.start_offset),
                end=telling.seconds(word.end_offset),
                confidence=round(word.confidence, 4) if word.HasField("confidence") else None,
            )
            for word in found.words
        ],
    )


def _story(event: event_pb2.Event) -> dict[str, object]:
    return {
        "type": telling.word(event.type, event_pb2.EventType, "EVENT_TYPE_"),
        "at": telling.moment(event.timestamp),
        "attempt": event.attempt,
        **_particulars(event),
    }


def _particulars(event: event_pb2.Event) -> dict[str, object]:  # a table of cases
    match event.WhichOneof("payload"):
        case "attempt_started":
            return {"resume_seconds": telling.seconds(event.attempt_started.resume_offset)}
        case "attempt_failed":
            failed = event.attempt_failed
            retry_at = telling.moment(failed.retry_time)
            return {"failure": telling.failure(failed.failure), "retry_at": retry_at}
        case "media_found":
            return {"media": telling.media(event.media_found.media)}
        case "start_execution":
            return {"model": event.start_execution.model or None}
        case "execution_result":
            heard = event.execution_result
            return {
                **_outcome(heard),
                "language": heard.language or None,
                "model": heard.model or None,
                "segment_count": heard.segment_count,
            }
        case "collection_result":
            fetched = event.collection_result
            return {**_outcome(fetched), "size_bytes": fetched.size_bytes}
        case "job_finished":
            ended = event.job_finished.job
            return {"state": telling.word(ended.state, job_pb2.JobState, "JOB_STATE_")}
        case _:
            return {}


def _outcome(result: event_pb2.ExecutionResult | event_pb2.CollectionResult) -> dict[str, object]:
    failed = result.HasField("failure")
    return {
        "status": telling.word(result.state, job_pb2.StageState, "STAGE_STATE_"),
        "failure": telling.failure(result.failure) if failed else None,
    }
