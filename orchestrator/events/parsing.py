"""Parses incoming events into CreateCollection requests; refusals name the key at fault."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, Literal, Self
from uuid import NAMESPACE_OID, uuid5

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from nats.aio.msg import Msg
from pydantic import ConfigDict, Discriminator, Field, Tag, ValidationError

from mesh.errors import InvalidRequestError
from mesh.messages import copy_shared, struct_of
from mesh.reasons import Reason
from orchestrator.events.parameters import (
    NAME_TAGS,
    PORTUGUESE,
    GivenParameters,
    Parameters,
    Strict,
    request_of,
)
from orchestrator.events.source_types import (
    SOURCE_TYPES,
    TYPE_WORD,
    NothingNamedError,
    named,
)
from orchestrator.tasks.source_names import Named
from ytcaption.v1 import event_pb2, task_pb2
from ytcaption.v1.collection_service_pb2 import CreateCollectionRequest

MESSAGE_ID = "Nats-Msg-Id"
PROTOBUF_FORM = "start_collection"
JSON_FORM = "iniciar_coleta"
START_EXECUTION = "iniciar_execucao"
RESULTS = ("resultado_coleta", "resultado_execucao")
MAX_WORD = 128
MAX_SPECS = 20
MAX_ERRORS = 10
SOURCE_TAGS: dict[type, str] = {str: "<list>", list: "<addresses>", dict: "<parts>"}
SCOPES: dict[str | None, "task_pb2.ExecutorScope.ValueType"] = {
    None: task_pb2.EXECUTOR_SCOPE_UNSPECIFIED,
    "item": task_pb2.EXECUTOR_SCOPE_ITEM,
    "colecao": task_pb2.EXECUTOR_SCOPE_COLLECTION,
}
COLLECTION_PARAMETERS = frozenset({*Parameters.model_fields, *PORTUGUESE.values()})
TAGS = {*SOURCE_TAGS.values(), *NAME_TAGS.values()}
"""Union tags, which cannot be keys: left out of the path in a validation error."""

Word = Annotated[str, Field(min_length=1, max_length=MAX_WORD)]
Address = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message of the inbox as the broker delivered it."""

    subject: str
    data: bytes
    sequence: int
    stored: datetime
    """When the broker stored it: the same in every delivery."""
    deliveries: int = 1
    message_id: str = ""
    """The sender's Nats-Msg-Id, if any."""

    @classmethod
    def of(cls, message: Msg) -> Self:
        """Reads the message's metadata."""
        known = message.metadata
        return cls(
            subject=message.subject,
            data=message.data,
            sequence=known.sequence.stream,
            stored=known.timestamp,
            deliveries=known.num_delivered,
            message_id=(message.headers or {}).get(MESSAGE_ID, ""),
        )

    @property
    def form(self) -> str:
        """The last token of the subject: the form the message claims to have."""
        return self.subject.rpartition(".")[2]

    @property
    def request_id(self) -> str:
        """For a message without one: equal for two deliveries, not for two messages."""
        identity = f"id {self.message_id}" if self.message_id else self._place
        return f"event-{sha256(identity.encode(errors='replace')).hexdigest()}"

    @property
    def letter_id(self) -> str:
        """One for each message, however often it is delivered."""
        return str(uuid5(NAMESPACE_OID, f"ytcaption inbox {self._place}"))

    @property
    def _place(self) -> str:
        # The time too: a stream made anew counts from one again.
        return f"{self.sequence} {self.stored.isoformat()}"


class SourceParts(Strict):
    """Sources to be listed and addresses of single recordings."""

    listas: list[Address] = Field(default=[], description="Playlists, channels, searches.")
    enderecos: list[Address] = Field(default=[], description="One recording each.")


Source = Annotated[
    Annotated[Address, Tag("<list>")]
    | Annotated[list[Address], Field(min_length=1), Tag("<addresses>")]
    | Annotated[SourceParts, Tag("<parts>")],
    Discriminator(lambda value: SOURCE_TAGS.get(type(value))),
]


class Collector(Strict):
    """What a registered collector is to find."""

    tipo: Word = Field(description="A type that is registered.")
    parametros: dict[str, Any] = Field(default={}, description="As the schema of the type says.")


class Executor(Strict):
    """What a registered executor is to make."""

    tipo: Word = Field(description="A kind that is registered.")
    parametros: dict[str, Any] = Field(default={}, description="As the schema of the kind says.")
    escopo: Literal["item", "colecao"] | None = Field(
        default=None, description="What one call gets; left out: what the kind prefers."
    )


def _show_registered(schema: dict[str, Any]) -> None:
    """With a registered collector as `fonte`, other parameters are the collector's."""
    words = [*SOURCE_TYPES, *(word.upper() for word in SOURCE_TYPES), "YouTube"]
    is_type = {"type": "string", "pattern": f"^{TYPE_WORD.pattern}$", "not": {"enum": words}}
    ours = schema["properties"].pop("parametros")
    schema["properties"]["parametros"] = {"type": "object"}
    schema["if"] = {"properties": {"fonte": is_type}, "required": ["fonte"]}
    schema["else"] = {"properties": {"parametros": ours}}
    schema["anyOf"] = [{"required": ["fonte"]}, {"required": ["fontes"]}]


NO_SOURCE = ""
FIELD_REQUIRED = "payload.fonte: field required"


class Payload(Strict):
    """The sources of a collection and its parameters."""

    model_config = ConfigDict(json_schema_extra=_show_registered)

    fonte: Source = Field(
        default=NO_SOURCE,
        description="A source type (youtube, url, or one that is registered), whose parameters name"
        " what to collect; or one playlist, channel, search or recording, which is listed; or a"
        " list of recordings; or both under their names.",
    )
    fontes: list[Collector] = Field(
        default=[],
        max_length=MAX_SPECS,
        description="What registered collectors are to find, side by side.",
    )
    executadores: list[Executor] = Field(
        default=[],
        max_length=MAX_SPECS,
        description="What registered executors are to make of it.",
    )
    parametros: GivenParameters = Field(default_factory=GivenParameters)


class StartEvent(Strict):
    """The incoming JSON form of START_COLLECTION: starts a batch."""

    correlation_id: Word = Field(description="In every event that follows from this one.")
    tipo_evento: Literal["iniciar_coleta"]
    timestamp: datetime
    payload: Payload
    evento_id: Word | None = Field(
        default=None, description="Sending it twice starts one collection."
    )


class ContractMessage(Strict):
    """The common envelope of the contract: what every message has, in and out."""

    correlation_id: Word = Field(description="The same in every message about one request.")
    tipo_evento: Literal[
        "iniciar_coleta",
        "resultado_coleta",
        "iniciar_execucao",
        "resultado_execucao",
        "resultado_agregado",
    ]
    payload: dict[str, Any] = Field(description="What it is about; see the schema of each kind.")
    timestamp: datetime
    evento_id: Word | None = Field(default=None, description="The same event never has two.")


def read_message(incoming: Incoming) -> ContractMessage:
    """An event of the contract by its envelope alone, of the kind that its subject names."""
    _check_json(incoming.data)
    try:
        message = ContractMessage.model_validate_json(incoming.data)
    except ValidationError as error:
        raise _invalid(error) from error
    if message.tipo_evento != incoming.form:
        raise _malformed(f"tipo_evento: must be {incoming.form} on subject {incoming.subject}")
    return message


def read(incoming: Incoming) -> CreateCollectionRequest:
    """The request of an event, read in the form its subject names."""
    if incoming.form == START_EXECUTION:
        read_message(incoming)
        raise NothingNamedError("no executor takes requests from outside")
    if incoming.form == JSON_FORM:
        request = _read_json(incoming)
    elif incoming.form == PROTOBUF_FORM:
        request = _read_protobuf(incoming)
    else:
        raise _malformed(f"no form of event is read from subject {incoming.subject}")
    request.request_id = request.request_id or incoming.request_id
    return request


def readable_correlation(incoming: Incoming) -> str:
    """The correlation id, even of an event that is otherwise unreadable."""
    named: Any = ""
    try:
        if incoming.form == PROTOBUF_FORM:
            named = event_pb2.Event.FromString(incoming.data).correlation_id
        else:
            found = json.loads(incoming.data.decode())
            named = found.get("correlation_id") if isinstance(found, dict) else ""
    except (DecodeError, ValueError, RecursionError):
        return ""
    # JSON may hold lone surrogates, which no protobuf message can carry.
    return named[:MAX_WORD].encode(errors="replace").decode() if isinstance(named, str) else ""


def _read_json(incoming: Incoming) -> CreateCollectionRequest:
    found = _check_json(incoming.data)
    data = json.dumps(found).encode() if _registered(found) else incoming.data
    try:
        event = StartEvent.model_validate_json(data)
    except ValidationError as error:
        raise _invalid(error, names_nothing=_names_nothing(found)) from error
    if _names_nothing(found):
        raise NothingNamedError(FIELD_REQUIRED)
    request = request_of(event.payload.parametros)
    if event.payload.fonte != NO_SOURCE:
        places = _named(event.payload, request.max_members)
        request.sources.extend(places.sources)
        request.addresses.extend(places.addresses)
    _put_specs(event.payload, request)
    request.correlation_id = event.correlation_id
    request.request_id = request.request_id or event.evento_id or ""
    return request


def _registered(event: Any) -> bool:
    """Makes a `fonte` that names a registered collector one of `fontes`; says whether it did.

    The parameters that a collection has are the collection's; the others are the collector's.
    """
    payload = event.get("payload") if isinstance(event, dict) else None
    source = payload.get("fonte") if isinstance(payload, dict) else None
    if not (isinstance(payload, dict) and isinstance(source, str)):
        return False
    given, several = payload.get("parametros", {}), payload.get("fontes", [])
    ours_alone = source.lower() in SOURCE_TYPES or not TYPE_WORD.fullmatch(source)
    if ours_alone or not isinstance(given, dict) or not isinstance(several, list):
        return False
    ours = {name: value for name, value in given.items() if name in COLLECTION_PARAMETERS}
    theirs = {name: value for name, value in given.items() if name not in ours}
    payload["fontes"] = [{"tipo": source, "parametros": theirs}, *several]
    payload["parametros"] = ours
    del payload["fonte"]
    return True


def _put_specs(payload: Payload, request: CreateCollectionRequest) -> None:
    for collector in payload.fontes:
        request.source_specs.add(type=collector.tipo, parameters=struct_of(collector.parametros))
    for executor in payload.executadores:
        request.executors.add(
            kind=executor.tipo,
            parameters=struct_of(executor.parametros),
            scope=SCOPES[executor.escopo],
        )


def _named(payload: Payload, max_members: int) -> Named:
    source, places = payload.fonte, payload.parametros.places
    if isinstance(source, str) and TYPE_WORD.fullmatch(source):
        return named(source, places, max_members)
    if places:
        raise _malformed(
            f"payload.parametros.{next(iter(places))}: only with a source type as fonte"
        )
    if isinstance(source, str):
        return Named([source])
    if isinstance(source, SourceParts):
        return Named(list(source.listas), list(source.enderecos))
    return Named([], list(source))


def _names_nothing(event: Any) -> bool:
    payload = event.get("payload") if isinstance(event, dict) else None
    return isinstance(payload, dict) and "fonte" not in payload and not payload.get("fontes")


def _invalid(error: ValidationError, *, names_nothing: bool = False) -> InvalidRequestError:
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    found = [_describe(each["loc"], each["type"], each["msg"]) for each in errors]
    more = "; …" if len(found) > MAX_ERRORS else ""
    words = "; ".join(found[:MAX_ERRORS]) + more
    only_payload = all(each["loc"][0] == "payload" for each in errors if each["loc"])
    if names_nothing:
        words = "; ".join(filter(None, [words, FIELD_REQUIRED]))
        return NothingNamedError(words) if only_payload else _malformed(words)
    return _malformed(words)


def _check_json(data: bytes) -> Any:
    """The JSON; refuses duplicate keys, which pydantic would accept (the last would win)."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        known = dict(pairs)
        if len(known) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in known if names.count(name) > 1)
            raise _malformed(f"the key {twice!r} comes twice")
        return known

    try:
        return json.loads(data.decode(), object_pairs_hook=once)
    except UnicodeDecodeError as error:
        raise _malformed(f"not UTF-8: {error.reason} at byte {error.start}") from error
    except (ValueError, RecursionError) as error:
        raise _malformed(f"not JSON: {error}") from error


def _describe(place: Sequence[str | int], kind: str, words: str) -> str:
    where = ".".join(str(part) for part in place if part not in TAGS) or "the event"
    last = place[-1] if place else ""
    if kind == "extra_forbidden":
        english = next((name for name, other in PORTUGUESE.items() if other == last), None)
        if english is not None and "parametros" in place:
            return f"{where}: given as {english} as well"
        return f"{where}: there is no such key"
    if kind == "union_tag_not_found" and last != "fonte":
        return f"{where}: must be a text or a list of texts"
    if kind == "union_tag_not_found":
        return f"{where}: must be a text, a list of texts, or an object with listas and enderecos"
    return f"{where}: {words[:1].lower()}{words[1:]}"


def _read_protobuf(incoming: Incoming) -> CreateCollectionRequest:
    try:
        event = event_pb2.Event.FromString(incoming.data)
    except DecodeError as error:
        raise _malformed("not a ytcaption.v1.Event") from error
    _check_event(event)
    request = CreateCollectionRequest(correlation_id=event.correlation_id)
    copy_shared(event.start_collection, request)
    request.request_id = request.request_id or event.event_id
    return request


def _check_event(event: event_pb2.Event) -> None:
    unknown = _unknown(event)
    if unknown:
        raise _malformed(f"{unknown}: there is no such field")
    if event.type != event_pb2.EVENT_TYPE_START_COLLECTION:
        raise _malformed(f"type: must be EVENT_TYPE_START_COLLECTION, not {event.type}")
    if not event.HasField("start_collection"):
        raise _malformed("start_collection: is missing")
    for name in ("job_id", "collection_id", "attempt"):
        if getattr(event, name):
            raise _malformed(f"{name}: is ours to choose")
    for field in ("owner", "group"):
        if getattr(event.start_collection, field):
            raise _malformed(f"start_collection.{field}: is ours to choose")


def _unknown(message: Message, place: str = "") -> str:
    """The path of a field this version does not know; "" if there is none."""
    strange: Any = UnknownFieldSet(message)
    if len(strange):
        return f"{place}field {strange[0].field_number}"
    for known, value in message.ListFields():
        if isinstance(value, Message):
            found = _unknown(value, f"{place}{known.name}.")
            if found:
                return found
    return ""


def _malformed(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, reason=Reason.EVENT_MALFORMED)
