"""Each of the four kinds has its JSON form, with all that happened and no more."""

import json
from typing import Any

import pytest
from google.protobuf.duration import from_seconds

from orchestrator.events.rendering import NoJsonFormError, rendered
from tests.orchestrator.events.outbox import COLLECTION, JOB, source, stored_event
from ytcaption.v1 import event_pb2, job_pb2, media_pb2


def in_json(event: event_pb2.Event) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rendered(event).model_dump_json(exclude_none=True))
    assert found["evento_id"] == event.event_id
    assert found["correlation_id"] == "thread-7"
    assert found["timestamp"].endswith("Z")
    return found


def test_the_start_of_a_job_is_rendered_with_its_source_and_options() -> None:
    start = event_pb2.StartCollection(
        sources=["https://example.test/a"], options=job_pb2.JobOptions(language="pt")
    )

    found = in_json(stored_event("start_collection", start, attempt=2))

    assert found["tipo_evento"] == "iniciar_coleta"
    assert found["payload"] == {
        "collection_id": COLLECTION,
        "job_id": JOB,
        "attempt": 2,
        "estado": "running",
        "fonte": "https://example.test/a",
        "parametros": {"language": "pt"},
    }


def test_the_start_of_a_collection_is_rendered_with_all_its_sources() -> None:
    start = event_pb2.StartCollection(
        sources=["ytsearch5:owls"],
        addresses=["https://example.test/a"],
        timeout=from_seconds(90),
        max_members=5,
        title="Owls",
        priority=job_pb2.PRIORITY_LOW,
    )

    found = in_json(stored_event("start_collection", start, job_id="", attempt=0))

    assert "job_id" not in found["payload"]
    assert found["payload"]["fonte"] == {
        "listas": ["ytsearch5:owls"],
        "enderecos": ["https://example.test/a"],
    }
    assert found["payload"]["parametros"] == {
        "timeout": 90.0,
        "max_members": 5,
        "title": "Owls",
        "priority": "low",
    }


def test_a_fetched_recording_is_rendered_with_its_metadata() -> None:
    media = media_pb2.MediaInfo(
        title="A talk", duration=from_seconds(61), upload_date="2025-10-03", container="webm"
    )
    media.chapters.add(title="One", end_offset=from_seconds(9))
    result = event_pb2.CollectionResult(
        source=source(), state=job_pb2.STAGE_STATE_COMPLETED, media=media, size_bytes=7
    )

    found = in_json(stored_event("collection_result", result))

    shown = {
        "titulo": "A talk",
        "duracao": 61.0,
        "data_publicacao": "2025-10-03",
        "formato": "webm",
        "capitulos": [{"inicio": 0.0, "fim": 9.0, "titulo": "One"}],
    }
    assert found["tipo_evento"] == "resultado_coleta"
    assert found["payload"] == {
        "collection_id": COLLECTION,
        "job_id": JOB,
        "attempt": 1,
        "estado": "completed",
        "fonte": "https://example.test/a",
        "status": "concluida",
        "erros": [],
        "dados": {"endereco": "https://example.test/a", "tamanho": 7, "media": shown},
        "tamanho": 7,
        "media": shown,
    }


def test_a_failure_is_rendered_with_its_reason() -> None:
    failure = job_pb2.Failure(
        reason="SITE_ERROR", message="503", retryable=True, stage=job_pb2.STAGE_DOWNLOAD, attempt=3
    )
    result = event_pb2.CollectionResult(
        source=job_pb2.Source(upload=job_pb2.Upload(file_name="talk.mp3")),
        state=job_pb2.STAGE_STATE_TIMED_OUT,
        failure=failure,
    )

    payload = in_json(stored_event("collection_result", result))["payload"]

    assert (payload["fonte"], payload["estado"]) == ("talk.mp3", "timed_out")
    assert (payload["status"], payload["erros"]) == ("timeout", [payload["falha"]])
    assert "dados" not in payload
    assert payload["falha"] == {
        "motivo": "SITE_ERROR",
        "mensagem": "503",
        "repetivel": True,
        "etapa": "download",
        "tentativa": 3,
    }


def test_the_start_and_the_result_of_a_transcription_are_rendered() -> None:
    begun = event_pb2.StartExecution(
        model="base", options=job_pb2.JobOptions(beam_size=2), source=source()
    )
    result = event_pb2.ExecutionResult(
        state=job_pb2.STAGE_STATE_COMPLETED,
        language="pt",
        model="base",
        duration=from_seconds(61),
        segment_count=9,
        source=source(),
        job_state=job_pb2.JOB_STATE_SUCCEEDED,
    )

    start, end = (
        in_json(stored_event(kind, payload))
        for kind, payload in (("start_execution", begun), ("execution_result", result))
    )

    common = {"collection_id": COLLECTION, "job_id": JOB, "attempt": 1}
    common["fonte"] = "https://example.test/a"
    assert (start["tipo_evento"], end["tipo_evento"]) == ("iniciar_execucao", "resultado_execucao")
    assert start["payload"] == common | {
        "estado": "running",
        "modelo": "base",
        "parametros": {"beam_size": 2},
    }
    assert end["payload"] == common | {
        "estado": "completed",
        "status": "concluida",
        "erros": [],
        "resultado": "ok",
        "arquivo": "transcription.srt",
        "arquivo_endereco": f"/jobs/{JOB}/captions.srt",
        "idioma": "pt",
        "modelo": "base",
        "duracao": 61.0,
        "segmentos": 9,
    }


def test_a_transcription_with_doubts_has_its_warnings() -> None:
    warning = job_pb2.Warning(reason="LANGUAGE_UNCERTAIN", message="It may be Galician.")
    result = event_pb2.ExecutionResult(
        state=job_pb2.STAGE_STATE_COMPLETED, source=source(), warnings=[warning]
    )

    payload = in_json(stored_event("execution_result", result))["payload"]

    assert payload["avisos"] == [
        {"motivo": "LANGUAGE_UNCERTAIN", "mensagem": "It may be Galician."}
    ]


@pytest.mark.parametrize(
    ("ended", "state", "status", "file"),
    [
        # With human-made captions, or those of an identical job, nothing is transcribed.
        ("SUCCEEDED", "SKIPPED", "concluida", "transcription.srt"),
        ("CANCELLED", "SKIPPED", "erro", None),
        ("FAILED", "TIMED_OUT", "timeout", None),
        ("FAILED", "COMPLETED", "erro", None),
        # Events stored by an earlier version do not say how the job ended.
        ("UNSPECIFIED", "COMPLETED", "concluida", "transcription.srt"),
    ],
)
def test_the_status_of_an_execution_is_how_its_job_ended(
    ended: str, state: str, status: str, file: str | None
) -> None:
    result = event_pb2.ExecutionResult(
        state=job_pb2.StageState.Value(f"STAGE_STATE_{state}"),
        job_state=job_pb2.JobState.Value(f"JOB_STATE_{ended}"),
        source=source(),
    )

    payload = in_json(stored_event("execution_result", result))["payload"]

    assert (payload["status"], payload.get("arquivo")) == (status, file)
    assert (payload["resultado"] == "ok") is (status == "concluida")


def test_other_kinds_have_no_json_form() -> None:
    with pytest.raises(NoJsonFormError):
        rendered(stored_event("media_found", event_pb2.MediaFound()))
