"""Renders stored events as the JSON models of the original contract."""

from collections.abc import Callable
from datetime import UTC
from typing import Any

from google.protobuf.duration import to_timedelta
from google.protobuf.message import Message

from mesh.messages import enum_name
from orchestrator.events import models
from orchestrator.events.parameters import options_of, parameters_of
from orchestrator.events.parsing import SourceParts
from ytcaption.v1 import event_pb2, job_pb2, media_pb2


class NoJsonFormError(ValueError):
    """An event that has no JSON form."""


def _common(event: event_pb2.Event, estado: str) -> dict[str, Any]:
    return {
        "collection_id": event.collection_id or None,
        "job_id": event.job_id or None,
        "attempt": event.attempt,
        "estado": estado,
    }


def _fetch_or_batch_started(event: event_pb2.Event) -> models.FetchOrBatchStarted:
    start = event.start_collection
    is_fetch = bool(event.job_id and start.sources)
    batch = SourceParts(listas=list(start.sources), enderecos=list(start.addresses))
    return models.FetchOrBatchStarted(
        fonte=start.sources[0] if is_fetch else batch,
        parametros=parameters_of(start),
        **_common(event, "running"),
    )


def _fetch_result(event: event_pb2.Event) -> models.FetchResult:
    result = event.collection_result
    return models.FetchResult(
        fonte=_source(result.source),
        tamanho=result.size_bytes,
        media=_media(result.media) if result.HasField("media") else None,
        falha=_failure(result.failure) if result.HasField("failure") else None,
        **_common(event, _word(result, "state")),
    )


def _transcription_started(event: event_pb2.Event) -> models.TranscriptionStarted:
    start = event.start_execution
    return models.TranscriptionStarted(
        fonte=_source(start.source),
        modelo=start.model,
        parametros=options_of(start.options),
        **_common(event, "running"),
    )


def _transcription_result(event: event_pb2.Event) -> models.TranscriptionResult:
    result = event.execution_result
    return models.TranscriptionResult(
        fonte=_source(result.source),
        idioma=result.language or None,
        modelo=result.model or None,
        duracao=to_timedelta(result.duration).total_seconds(),
        segmentos=result.segment_count,
        avisos=list(map(_warning, result.warnings)) or None,
        falha=_failure(result.failure) if result.HasField("failure") else None,
        **_common(event, _word(result, "state")),
    )


def _source(source: job_pb2.Source) -> str:
    return source.url or source.upload.file_name


def _word(message: Message, field: str) -> str:
    return enum_name(message.DESCRIPTOR.fields_by_name[field].enum_type, getattr(message, field))


def _warning(warning: job_pb2.Warning) -> models.JobWarning:
    return models.JobWarning(motivo=warning.reason, mensagem=warning.message)


def _failure(failure: job_pb2.Failure) -> models.Failure:
    return models.Failure(
        motivo=failure.reason,
        mensagem=failure.message,
        repetivel=failure.retryable,
        etapa=_word(failure, "stage") if failure.stage else None,
        tentativa=failure.attempt,
    )


def _media(media: media_pb2.MediaInfo) -> models.Media:
    known = media.HasField("duration")
    return models.Media(
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
            models.Chapter(
                inicio=to_timedelta(chapter.start_offset).total_seconds(),
                fim=to_timedelta(chapter.end_offset).total_seconds(),
                titulo=chapter.title,
            )
            for chapter in media.chapters
        ],
    )


_FORMS: dict[str | None, tuple[type[models.AnyEvent], Callable[[event_pb2.Event], Any]]] = {
    "start_collection": (models.FetchOrBatchStartedEvent, _fetch_or_batch_started),
    "collection_result": (models.FetchResultEvent, _fetch_result),
    "start_execution": (models.TranscriptionStartedEvent, _transcription_started),
    "execution_result": (models.TranscriptionResultEvent, _transcription_result),
}
KINDS = tuple(map(str, _FORMS))
"""Events with a JSON form, by their names in the events stream and in the contract."""


def rendered(event: event_pb2.Event) -> models.AnyEvent:
    """The JSON model of an event; NoJsonFormError if its kind has none."""
    kind = event.WhichOneof("payload")
    if kind not in _FORMS:
        raise NoJsonFormError(f"there is no JSON form of {kind or 'an empty event'}")
    model, payload_of = _FORMS[kind]
    return model(
        evento_id=event.event_id,
        correlation_id=event.correlation_id,
        timestamp=event.timestamp.ToDatetime(UTC),
        payload=payload_of(event),
    )
