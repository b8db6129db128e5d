"""The outbox: publishes events of the event logs as JSON to the outbox stream.

An event is acknowledged only once it is in the outbox stream. After a crash in between the next
replica publishes it again, and the broker drops the duplicate.
"""

from collections.abc import Callable
from datetime import UTC
from typing import Any

from google.protobuf.duration import to_timedelta
from google.protobuf.message import DecodeError, Message
from nats.aio.msg import Msg
from nats.js import api
from structlog import get_logger

from mesh.bus import Bus, storing
from mesh.messages import enum_name
from orchestrator.events import models
from orchestrator.events.parameters import options_of, parameters_of
from orchestrator.events.parsing import MESSAGE_ID, SourceParts
from orchestrator.queue.consumers import Consumer
from ytcaption.v1 import event_pb2, job_pb2, media_pb2

log = get_logger(__name__)

DURABLE = "herald"
"""A wire name: the consumer of running installations."""
ACK_WAIT_SECONDS = 10.0
AGAIN_SECONDS = 1.0
HEADERS_BYTES = 1024
READERS = ("listener", "bridge")
"""Durable consumers of the outbox stream: of each the broker keeps how far its role has read."""


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


class Outbox(Consumer):
    """Shared by all replicas: one event in flight at a time, so event-log order is kept."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(
            bus,
            bus.names.events_stream,
            DURABLE,
            ACK_WAIT_SECONDS,
            filter_subjects=[bus.names.event("*", kind) for kind in KINDS],
            deliver_policy=api.DeliverPolicy.NEW,
            max_ack_pending=1,
            retry_after=lambda *_: AGAIN_SECONDS,
        )

    async def create(self) -> None:
        """Also the consumers of those who read the outbox stream; they may make none."""
        async with storing():
            for name in READERS:
                await self._bus.jetstream.add_consumer(
                    self._bus.names.outbox_stream,
                    durable_name=name,
                    ack_policy=api.AckPolicy.EXPLICIT,
                )
        await super().create()

    async def _handle(self, message: Msg) -> None:
        if event := self._rendered(message):
            kind, event_id, data = event
            headers = {MESSAGE_ID: event_id}
            await self._bus.publish(self._bus.names.outgoing(kind), data, headers)

    def _rendered(self, message: Msg) -> tuple[str, str, bytes] | None:
        """The event's kind, id and JSON; None if it has none, which must not hold up the others."""
        try:
            event = rendered(event_pb2.Event.FromString(message.data))
            data = event.model_dump_json(exclude_none=True).encode()
        except (DecodeError, ValueError, KeyError) as error:
            # Without the traceback, which would show all of the event.
            log.error(  # noqa: TRY400
                "skip event without JSON form", subject=message.subject, error=str(error)[:500]
            )
            return None
        if len(data) + HEADERS_BYTES > self._bus.client.max_payload:
            log.error("skip event that is too large", subject=message.subject, size=len(data))
            return None
        return event.tipo_evento, event.evento_id, data
