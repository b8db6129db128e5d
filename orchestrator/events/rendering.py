"""The four kinds of event of the original contract, from protobuf into their JSON form."""

from datetime import UTC
from typing import Any

from google.protobuf.duration import to_timedelta
from google.protobuf.message import Message

from orchestrator.heralds.messages import options_of, parameters_of, word_of
from orchestrator.heralds.reading import Both
from orchestrator.heralds.shapes import (
    AnyEvent,
    Chapter,
    Collected,
    CollectedEvent,
    CollectionStarted,
    CollectionStartedEvent,
    Executed,
    ExecutedEvent,
    ExecutionStarted,
    ExecutionStartedEvent,
    Failure,
    Media,
)
from ytcaption.v1 import event_pb2, job_pb2, media_pb2

KINDS = ("start_collection", "collection_result", "start_execution", "execution_result")
"""What they are called in the events stream, and in the contract."""


class NotOursError(ValueError):
    """An event that has no JSON form."""


def translated(event: event_pb2.Event) -> AnyEvent:
    """The event in JSON; NotOursError if it is of another kind."""
    envelope: dict[str, Any] = {
        "evento_id": event.event_id,
        "correlation_id": event.correlation_id,
        "timestamp": event.timestamp.ToDatetime(UTC),
    }
    match event.WhichOneof("payload"):
        case "start_collection":
            return CollectionStartedEvent(payload=_collection_started(event), **envelope)
        case "collection_result":
            return CollectedEvent(payload=_collected(event), **envelope)
        case "start_execution":
            return ExecutionStartedEvent(payload=_execution_started(event), **envelope)
        case "execution_result":
            return ExecutedEvent(payload=_executed(event), **envelope)
        case other:
            raise NotOursError(f"there is no JSON form of {other or 'an empty event'}")


def _common(event: event_pb2.Event, estado: str) -> dict[str, Any]:
    return {
        "collection_id": event.collection_id or None,
        "job_id": event.job_id or None,
        "attempt": event.attempt,
        "estado": estado,
    }


def _collection_started(event: event_pb2.Event) -> CollectionStarted:
    start = event.start_collection
    of_job = bool(event.job_id and start.sources)
    whole = Both(listas=list(start.sources), enderecos=list(start.addresses))
    return CollectionStarted(
        fonte=start.sources[0] if of_job else whole,
        parametros=parameters_of(start),
        **_common(event, "running"),
    )


def _collected(event: event_pb2.Event) -> Collected:
    result = event.collection_result
    return Collected(
        fonte=_source(result.source),
        tamanho=result.size_bytes,
        media=_media(result.media) if result.HasField("media") else None,
        falha=_failure(result.failure) if result.HasField("failure") else None,
        **_common(event, _word(result, "state")),
    )


def _execution_started(event: event_pb2.Event) -> ExecutionStarted:
    start = event.start_execution
    return ExecutionStarted(
        fonte=_source(start.source),
        modelo=start.model,
        parametros=options_of(start.options),
        **_common(event, "running"),
    )


def _executed(event: event_pb2.Event) -> Executed:
    result = event.execution_result
    return Executed(
        fonte=_source(result.source),
        idioma=result.language or None,
        modelo=result.model or None,
        duracao=to_timedelta(result.duration).total_seconds(),
        segmentos=result.segment_count,
        falha=_failure(result.failure) if result.HasField("failure") else None,
        **_common(event, _word(result, "state")),
    )


def _source(source: job_pb2.Source) -> str:
    return source.url or source.upload.file_name


def _word(message: Message, field: str) -> str:
    return word_of(message.DESCRIPTOR.fields_by_name[field], getattr(message, field))


def _failure(failure: job_pb2.Failure) -> Failure:
    return Failure(
        motivo=failure.reason,
        mensagem=failure.message,
        repetivel=failure.retryable,
        etapa=_word(failure, "stage") if failure.stage else None,  # type: ignore[arg-type]
        tentativa=failure.attempt,
    )


def _media(media: media_pb2.MediaInfo) -> Media:
    known = media.HasField("duration")
    return Media(
        id=media.media_id or None,
        titulo=media.title or None,
        autor=media.uploader or None,
        duracao=to_timedelta(media.duration).total_seconds() if known else None,
        data_publicacao=media.upload_date or None,
        pagina=media.webpage_url or None,
        miniatura=media.thumbnail_url or None,
        extrator=media.extractor or None,
        formato=media.container or None,
        capitulos=[
            Chapter(
                inicio=to_timedelta(chapter.start_offset).total_seconds(),
                fim=to_timedelta(chapter.end_offset).total_seconds(),
                titulo=chapter.title,
            )
            for chapter in media.chapters
        ],
    )
