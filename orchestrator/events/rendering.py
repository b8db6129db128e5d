"""Renders events of the event logs as JSON models of the original contract."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote

from google.protobuf.duration import to_timedelta
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from mesh.messages import enum_name
from mesh.reasons import RETRYABLE, Reason
from orchestrator.events import models
from orchestrator.events.parameters import options_of, parameters_of
from orchestrator.events.parsing import SourceParts
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2, media_pb2, task_pb2

CAPTIONS_FILE = "transcription.srt"
STATUSES: dict[int, models.Status] = {
    job_pb2.STAGE_STATE_COMPLETED: "concluida",
    job_pb2.STAGE_STATE_TIMED_OUT: "timeout",
}
"""How a stage ended; in every other way it failed, or was stopped."""


MEMBER_STATUSES: dict[int, models.Status] = {
    collection_pb2.MEMBER_STATE_PENDING: "pendente",
    collection_pb2.MEMBER_STATE_RUNNING: "em_execucao",
    collection_pb2.MEMBER_STATE_COMPLETED: "concluida",
    collection_pb2.MEMBER_STATE_TIMED_OUT: "timeout",
}
"""How a subtask stands; otherwise it failed, or was stopped."""
TASK_STATUSES: dict[int, models.Status] = {
    task_pb2.SUBTASK_STATE_PENDING: "pendente",
    task_pb2.SUBTASK_STATE_RUNNING: "em_execucao",
    task_pb2.SUBTASK_STATE_COMPLETED: "concluida",
    task_pb2.SUBTASK_STATE_TIMED_OUT: "timeout",
}
"""The same of a call of a collector or an executor."""
PART_BYTES = 256 * 1024
"""Subtasks of one message together; more are sent in several."""


def captions_path(job_id: str) -> str:
    """Where the HTTP gateway serves the captions of a job."""
    return f"/jobs/{job_id}/captions.srt"


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
    media = _media(result.media) if result.HasField("media") else None
    fonte = _source(result.source)
    done = result.state == job_pb2.STAGE_STATE_COMPLETED
    return models.FetchResult(
        fonte=fonte,
        status=STATUSES.get(result.state, "erro"),
        dados=models.Collected(endereco=fonte, tamanho=result.size_bytes, media=media)
        if done
        else None,
        erros=_failures(result),
        tamanho=result.size_bytes,
        media=media,
        falha=failure_model(result.failure) if result.HasField("failure") else None,
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
    status = _status_of(result)
    succeeded = status == "concluida"
    return models.TranscriptionResult(
        fonte=_source(result.source),
        status=status,
        resultado="ok" if succeeded else "erro",
        arquivo=CAPTIONS_FILE if succeeded else None,
        arquivo_endereco=captions_path(event.job_id) if succeeded else None,
        erros=_failures(result),
        idioma=result.language or None,
        modelo=result.model or None,
        duracao=to_timedelta(result.duration).total_seconds(),
        segmentos=result.segment_count,
        avisos=list(map(_warning, result.warnings)) or None,
        falha=failure_model(result.failure) if result.HasField("failure") else None,
        **_common(event, _word(result, "state")),
    )


def _status_of(result: event_pb2.ExecutionResult) -> models.Status:
    """A job can succeed without a transcription, as with human-made captions."""
    if result.job_state == job_pb2.JOB_STATE_SUCCEEDED:
        return "concluida"
    status = STATUSES.get(result.state, "erro")
    return "erro" if result.job_state and status == "concluida" else status


def _failures(result: event_pb2.CollectionResult | event_pb2.ExecutionResult) -> list[Any]:
    return [failure_model(result.failure)] if result.HasField("failure") else []


def _source(source: job_pb2.Source) -> str:
    return source.url or source.upload.file_name


def _word(message: Message, field: str) -> Any:
    return enum_name(message.DESCRIPTOR.fields_by_name[field].enum_type, getattr(message, field))


def _warning(warning: job_pb2.Warning) -> models.JobWarning:
    return models.JobWarning(motivo=warning.reason, mensagem=warning.message)


def failure_model(failure: job_pb2.Failure) -> models.Failure:
    """The failure of a job, a stage or a listing."""
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


def refused(  # noqa: PLR0913 # a message of the contract
    kind: Literal["resultado_coleta", "resultado_execucao"],
    *,
    event_id: str,
    correlation_id: str,
    timestamp: datetime,
    reason: Reason,
    message: str,
) -> models.FetchResultEvent | models.TranscriptionResultEvent:
    """The answer to a request that starts nothing."""
    failure = models.Failure(
        motivo=reason, mensagem=message, repetivel=reason in RETRYABLE, tentativa=0
    )
    common: dict[str, Any] = {
        "attempt": 0,
        "estado": "failed",
        "status": "erro",
        "erros": [failure],
        "falha": failure,
    }
    envelope: dict[str, Any] = {
        "evento_id": event_id,
        "correlation_id": correlation_id,
        "timestamp": timestamp,
    }
    if kind == "resultado_coleta":
        return models.FetchResultEvent(**envelope, payload=models.FetchResult(tamanho=0, **common))
    return models.TranscriptionResultEvent(
        **envelope,
        payload=models.TranscriptionResult(resultado="erro", duracao=0, segmentos=0, **common),
    )


def aggregates(
    event: event_pb2.Event,
    members: Sequence[collection_pb2.Member],
    tasks: Sequence[task_pb2.Subtask] = (),
) -> Iterator[models.AggregateEvent]:
    """The aggregate of a collection with its parts as they stood at the event, in parts.

    None if the event settles what was final when it was gathered.
    """
    collection = event.collection_changed.collection
    gathered_at = collection.end_time.ToNanoseconds()
    settles = event.type == event_pb2.EVENT_TYPE_COLLECTION_SETTLED
    parts: list[collection_pb2.Member | task_pb2.Subtask] = [*members, *_visibly_late(tasks)]
    if settles and not any(one.end_time.ToNanoseconds() > gathered_at for one in parts):
        return
    subtasks = [*map(_subtask, members), *(_task(collection, one) for one in tasks)]
    final = settles or not any(map(_may_change, parts))
    counts: Counter[str] = Counter(one.status for one in subtasks)
    messages = list(_parts(subtasks))
    for number, part in enumerate(messages, 1):
        yield models.AggregateEvent(
            evento_id=event.event_id if number == 1 else f"{event.event_id}.{number}",
            correlation_id=event.correlation_id,
            timestamp=event.timestamp.ToDatetime(UTC),
            payload=models.Aggregate(
                collection_id=collection.collection_id,
                titulo=collection.title or None,
                estado=_word(collection, "state"),
                completo=collection.state == collection_pb2.COLLECTION_STATE_COMPLETE,
                definitivo=final,
                total=len(subtasks),
                contagens=models.Counts(**counts),
                erros=[
                    failure_model(one.failure)
                    for one in collection.listings
                    if one.HasField("failure")
                ],
                prazo=collection.deadline.ToDatetime(UTC)
                if collection.HasField("deadline")
                else None,
                parte=number,
                partes=len(messages),
                subtarefas=part,
            ),
        )


def _visibly_late(tasks: Sequence[task_pb2.Subtask]) -> list[task_pb2.Subtask]:
    """Tasks whose end after the deadline changes the aggregate: collectors are stopped by it."""
    stopped = task_pb2.TASK_ROLE_COLLECTOR, task_pb2.SUBTASK_STATE_TIMED_OUT
    return [one for one in tasks if (one.role, one.state) != stopped]


def _may_change(part: collection_pb2.Member | task_pb2.Subtask) -> bool:
    """Whether its job or task goes on after the deadline."""
    return _word(part, "state") == "timed_out" and not part.HasField("end_time")


def _task(collection: collection_pb2.Collection, task: task_pb2.Subtask) -> models.Subtask:
    """A call of a collector or an executor."""
    status = TASK_STATUSES.get(task.state, "erro")
    is_collector = task.role == task_pb2.TASK_ROLE_COLLECTOR
    return models.Subtask(
        numero=task.number,
        funcao="escavador" if is_collector else "executador",
        tarefa_id=task.task_id,
        fonte=task.type,
        status=status,
        estado=_word(task, "state"),
        resultado="ok" if status == "concluida" else None,
        parametros=MessageToDict(task.parameters) or None,
        encontrados=task.found if is_collector else None,
        dados=MessageToDict(task.result) if task.HasField("result") else None,
        arquivos=[
            models.ResultFile(
                nome=file.name,
                tipo=file.media_type,
                tamanho=file.size_bytes,
                sha256=file.sha256,
                endereco=(
                    f"/collections/{collection.collection_id}/subtasks/{task.number}"
                    f"/files/{quote(file.name, safe='')}"
                ),
            )
            for file in task.files
        ]
        or None,
        atrasada=task.late,
        erros=[failure_model(task.failure)] if task.HasField("failure") else [],
    )


def _subtask(member: collection_pb2.Member) -> models.Subtask:
    status = MEMBER_STATUSES.get(member.state, "erro")
    done = status == "concluida"
    return models.Subtask(
        numero=member.number,
        job_id=member.job_id or None,
        fonte=member.source_url,
        titulo=member.title or None,
        status=status,
        estado=_word(member, "state"),
        resultado="ok" if done else None,
        arquivo=CAPTIONS_FILE if done else None,
        arquivo_endereco=captions_path(member.job_id) if done else None,
        idioma=member.language or None,
        duracao=to_timedelta(member.duration).total_seconds()
        if member.HasField("duration")
        else None,
        atrasada=member.late,
        erros=[failure_model(member.failure)] if member.HasField("failure") else [],
    )


def _parts(subtasks: list[models.Subtask]) -> Iterator[list[models.Subtask]]:
    """The subtasks in order, at most PART_BYTES at a time; at least one part."""
    part: list[models.Subtask] = []
    size = 0
    for subtask in subtasks:
        length = len(subtask.model_dump_json(exclude_none=True).encode())
        if part and size + length > PART_BYTES:
            yield part
            part, size = [], 0
        part.append(subtask)
        size += length
    yield part
