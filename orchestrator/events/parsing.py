"""What came in, as the request it stands for; what can never work is refused and says where."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from pydantic import Discriminator, Field, Tag, ValidationError

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from orchestrator.heralds.incoming import Incoming
from orchestrator.heralds.messages import request_of
from orchestrator.heralds.parameters import PORTUGUESE, GivenParameters, Strict
from ytcaption.v1 import event_pb2
from ytcaption.v1.collection_service_pb2 import CreateCollectionRequest

PROTOBUF_FORM = "start_collection"
JSON_FORM = "iniciar_coleta"
MAX_WORD = 128
MAX_COMPLAINTS = 10
SHAPES: dict[type, str] = {str: "<list>", list: "<addresses>", dict: "<both>"}
"""Tags that can be no keys: they are left out where a complaint says where."""

Word = Annotated[str, Field(min_length=1, max_length=MAX_WORD)]
Address = Annotated[str, Field(min_length=1)]


class Both(Strict):
    """Lists to be listed, and single recordings."""

    listas: list[Address] = Field(default=[], description="Playlists, channels, searches.")
    enderecos: list[Address] = Field(default=[], description="One recording each.")


def _shape(value: Any) -> str | None:
    return SHAPES.get(type(value))


Source = Annotated[
    Annotated[Address, Tag("<list>")]
    | Annotated[list[Address], Field(min_length=1), Tag("<addresses>")]
    | Annotated[Both, Tag("<both>")],
    Discriminator(_shape),
]


class Payload(Strict):
    """What to collect, and how."""

    fonte: Source = Field(
        description="One playlist, channel, search or recording, which is listed; or a list of"
        " recordings; or both under their names."
    )
    parametros: GivenParameters = Field(default_factory=GivenParameters)


class StartEvent(Strict):
    """The JSON form of START_COLLECTION."""

    correlation_id: Word = Field(description="In every event that follows from this one.")
    tipo_evento: Literal["iniciar_coleta"]
    timestamp: datetime
    payload: Payload
    evento_id: Word | None = Field(
        default=None, description="Sending it twice starts one collection."
    )


def read(incoming: Incoming) -> CreateCollectionRequest:
    """By the form its subject promises."""
    if incoming.form == JSON_FORM:
        request = _read_json(incoming)
    elif incoming.form == PROTOBUF_FORM:
        request = _read_protobuf(incoming)
    else:
        raise _malformed(f"nobody reads what comes on {incoming.subject}")
    request.request_id = request.request_id or incoming.request_id
    return request


def readable_correlation(incoming: Incoming) -> str:
    """The correlation id, even of an event of which nothing else can be read."""
    named: Any = ""
    try:
        if incoming.form == PROTOBUF_FORM:
            named = event_pb2.Event.FromString(incoming.data).correlation_id
        else:
            found = json.loads(incoming.data.decode())
            named = found.get("correlation_id") if isinstance(found, dict) else ""
    except (DecodeError, ValueError, RecursionError):
        return ""
    # JSON may hold halves of characters, which no message can carry.
    return named[:MAX_WORD].encode(errors="replace").decode() if isinstance(named, str) else ""


def _read_json(incoming: Incoming) -> CreateCollectionRequest:
    _check_json(incoming.data)
    try:
        event = StartEvent.model_validate_json(incoming.data)
    except ValidationError as error:
        complaints = error.errors(include_url=False, include_input=False, include_context=False)
        told = [_complaint(each["loc"], each["type"], each["msg"]) for each in complaints]
        more = "; …" if len(told) > MAX_COMPLAINTS else ""
        raise _malformed("; ".join(told[:MAX_COMPLAINTS]) + more) from error
    request = request_of(event.payload.parametros)
    source = event.payload.fonte
    if isinstance(source, str):
        request.sources.append(source)
    elif isinstance(source, Both):
        request.sources.extend(source.listas)
        request.addresses.extend(source.enderecos)
    else:
        request.addresses.extend(source)
    request.correlation_id = event.correlation_id
    request.request_id = request.request_id or event.evento_id or ""
    return request


def _check_json(data: bytes) -> None:
    """What the other parser would let pass: keys that come twice, the last of which would count."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        known = dict(pairs)
        if len(known) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in known if names.count(name) > 1)
            raise _malformed(f"the key {twice!r} comes twice")
        return known

    try:
        json.loads(data.decode(), object_pairs_hook=once)
    except UnicodeDecodeError as error:
        raise _malformed(f"not UTF-8: {error.reason} at byte {error.start}") from error
    except (ValueError, RecursionError) as error:
        raise _malformed(f"not JSON: {error}") from error


def _complaint(place: Sequence[str | int], kind: str, words: str) -> str:
    where = ".".join(str(part) for part in place if part not in SHAPES.values()) or "the event"
    last = place[-1] if place else ""
    if kind == "extra_forbidden":
        english = next((name for name, other in PORTUGUESE.items() if other == last), None)
        if english is not None and "parametros" in place:
            return f"{where}: given as {english} as well"
        return f"{where}: there is no such key"
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
    for field, value in event.start_collection.ListFields():
        if field.message_type is not None:
            getattr(request, field.name).CopyFrom(value)
        elif field.is_repeated:
            getattr(request, field.name).extend(value)
        else:
            setattr(request, field.name, value)
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


def _unknown(message: Message, place: str = "") -> str:
    """Where there is a field that this version does not know; "" if there is none."""
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
