"""Events as they come, right and wrong."""

from datetime import UTC, datetime
from typing import Any

from orchestrator.events.parsing import Incoming, read
from tests.orchestrator.events.starting import as_json, event
from ytcaption.v1 import event_pb2
from ytcaption.v1.collection_service_pb2 import CreateCollectionRequest

MIDDAY = datetime(2026, 11, 16, 12, tzinfo=UTC)


def incoming(data: bytes, form: str = "iniciar_coleta", **fields: Any) -> Incoming:
    place: dict[str, Any] = {"sequence": 3, "stored": MIDDAY}
    return Incoming(f"ytc.in.{form}", data, **(place | fields))


def asked(found: dict[str, Any]) -> CreateCollectionRequest:
    return read(incoming(as_json(found)))


def with_parameters(**given: Any) -> dict[str, Any]:
    return event(payload={"fonte": "https://example.test/list", "parametros": given})


WRONG: list[tuple[Any, str]] = [
    (b"\xff", "not UTF-8: invalid start byte at byte 0"),
    (b"{", "not JSON: Expecting property name"),
    (b"[" * 100_000, "not JSON: "),
    (b'{"a": 1, "a": 2}', "the key 'a' comes twice"),
    (b'{"correlation_id": "\\ud800"}', "the event: invalid JSON"),
    (b"[]", "the event: input should be an object"),
    (event(tipo_evento="resultado_coleta"), "tipo_evento: input should be 'iniciar_coleta'"),
    (event(timestamp="yesterday"), "timestamp: input should be a valid datetime"),
    (event(correlation_id=7), "correlation_id: input should be a valid string"),
    (event(extra=1), "extra: there is no such key"),
    (event(payload={}), "payload.fonte: field required"),
    (event(7), "payload.fonte: must be a text, a list of texts, or an object"),
    (event([]), "payload.fonte: list should have at least 1 item"),
    (event(["a", 7]), "payload.fonte.1: input should be a valid string"),
    (event({"lista": "a"}), "payload.fonte.lista: there is no such key"),
    (with_parameters(lingua="pt"), "payload.parametros.lingua: there is no such key"),
    (with_parameters(beam_size="5"), "payload.parametros.beam_size: input should be a valid int"),
    (with_parameters(idioma=5), "payload.parametros.idioma: input should be a valid string"),
    (with_parameters(idiomas="pt"), "payload.parametros.idiomas: input should be a valid array"),
    (
        with_parameters(languages=["pt", 7]),
        "payload.parametros.languages.1: input should be a valid string",
    ),
    (with_parameters(force=1), "payload.parametros.force: input should be a valid boolean"),
    (with_parameters(tempo_limite=-1), "payload.parametros.tempo_limite: input should be greater"),
    (with_parameters(max_members=2**40), "payload.parametros.max_members: input should be less"),
    (with_parameters(de="1 Oct"), "payload.parametros.de: string should match"),
    (with_parameters(priority="urgent"), "payload.parametros.priority: input should be 'high'"),
    (with_parameters(sources=["a"]), "payload.parametros.sources: there is no such key"),
    (
        with_parameters(language="pt", idioma="en"),
        "payload.parametros.idioma: given as language as well",
    ),
    (
        with_parameters(cue_rules={"lines": 1}, download={"proxy": 1}),
        "payload.parametros.cue_rules.lines: there is no such key; "
        "payload.parametros.download.proxy: input should be a valid string",
    ),
]


def protobuf(**fields: Any) -> bytes:
    usual: dict[str, Any] = {"type": event_pb2.EVENT_TYPE_START_COLLECTION, "event_id": "one"}
    return event_pb2.Event(**(usual | fields)).SerializeToString()
