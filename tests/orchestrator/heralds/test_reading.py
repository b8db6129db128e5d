"""What an event asks for is what is asked of the collections; what cannot be is refused by name."""

from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.duration import from_seconds

from mesh.errors import InvalidRequestError
from orchestrator.heralds.incoming import Incoming
from orchestrator.heralds.messages import options_of, parameters_of
from orchestrator.heralds.parameters import PORTUGUESE, CueRules, Download, Options, Parameters
from orchestrator.heralds.reading import read, readable_correlation
from tests.orchestrator.heralds.starting import as_json, event
from ytcaption.v1 import event_pb2, job_pb2, media_pb2
from ytcaption.v1.collection_service_pb2 import CreateCollectionRequest

MIDDAY = datetime(2026, 11, 16, 12, tzinfo=UTC)


def incoming(data: bytes, form: str = "iniciar_coleta", **fields: Any) -> Incoming:
    place: dict[str, Any] = {"sequence": 3, "stored": MIDDAY}
    return Incoming(f"ytc.in.{form}", data, **(place | fields))


def asked(found: dict[str, Any]) -> CreateCollectionRequest:
    return read(incoming(as_json(found)))


def with_parameters(**given: Any) -> dict[str, Any]:
    return event(payload={"fonte": "https://example.test/list", "parametros": given})


@pytest.mark.parametrize(
    ("fonte", "sources", "addresses"),
    [
        ("ytsearch5:owls", ["ytsearch5:owls"], []),
        (["https://a.test", "https://b.test"], [], ["https://a.test", "https://b.test"]),
        (
            {"listas": ["https://l.test"], "enderecos": ["https://a.test"]},
            ["https://l.test"],
            ["https://a.test"],
        ),
        ({"enderecos": ["https://a.test"]}, [], ["https://a.test"]),
    ],
)
def test_one_text_is_listed_and_a_list_is_of_recordings(
    fonte: Any, sources: list[str], addresses: list[str]
) -> None:
    request = asked(event(fonte))

    assert (list(request.sources), list(request.addresses)) == (sources, addresses)
    assert request.correlation_id == "thread-7"


def test_every_parameter_arrives_under_its_name() -> None:
    request = asked(
        with_parameters(
            language="pt",
            remove_noise=False,
            beam_size=3,
            captions_policy="prefer_human",
            loudness_lufs=-16,
            cue_rules={"max_lines": 1, "min_gap": 0.25},
            download={"user_agent": "us", "request_interval": 2},
            timeout=90.5,
            max_in_flight=4,
            from_date="2025-10-01",
            to_date="2025-10-31",
            max_members=30,
            title="October",
            webhook_url="https://hook.test",
            request_id="mine",
            caller="me",
            priority="low",
            force=True,
        )
    )

    expected = CreateCollectionRequest(
        sources=["https://example.test/list"],
        correlation_id="thread-7",
        options=job_pb2.JobOptions(
            language="pt",
            remove_noise=False,
            beam_size=3,
            captions_policy=job_pb2.CAPTIONS_POLICY_PREFER_HUMAN,
            loudness_lufs=-16,
            cue_rules=media_pb2.CueRules(max_lines=1),
            download=media_pb2.DownloadOptions(user_agent="us", request_interval=from_seconds(2)),
        ),
        max_in_flight=4,
        from_date="2025-10-01",
        to_date="2025-10-31",
        max_members=30,
        title="October",
        webhook_url="https://hook.test",
        request_id="mine",
        caller="me",
        priority=job_pb2.PRIORITY_LOW,
        force=True,
    )
    expected.options.cue_rules.min_gap.FromMilliseconds(250)
    expected.timeout.FromMilliseconds(90_500)
    assert request == expected


def test_the_portuguese_names_mean_the_same() -> None:
    values: dict[str, Any] = {
        "period": "2025-10",
        "from_date": "2025-10-01",
        "to_date": "2025-10-31",
        "language": "pt",
        "language_out": "en",
        "max_members": 7,
        "timeout": 60,
        "max_in_flight": 2,
        "priority": "high",
        "title": "t",
        "webhook_url": "https://hook.test",
    }
    other = {PORTUGUESE[name]: value for name, value in values.items()} | {"prioridade": "alta"}

    [first, second] = [asked(with_parameters(**given, request_id="x")) for given in (values, other)]
    assert set(values) == set(PORTUGUESE)
    assert first == second


def test_nothing_of_the_contract_is_missing_in_the_json_form() -> None:
    from_elsewhere = {"sources", "addresses", "options", "correlation_id"}
    of_collection = set(CreateCollectionRequest.DESCRIPTOR.fields_by_name) - from_elsewhere

    assert set(Options.model_fields) == set(job_pb2.JobOptions.DESCRIPTOR.fields_by_name)
    assert set(Parameters.model_fields) - set(Options.model_fields) == of_collection
    assert set(CueRules.model_fields) == set(media_pb2.CueRules.DESCRIPTOR.fields_by_name)
    assert set(Download.model_fields) == set(media_pb2.DownloadOptions.DESCRIPTOR.fields_by_name)


def test_every_field_of_the_protobuf_form_has_its_place_in_the_request() -> None:
    places = CreateCollectionRequest.DESCRIPTOR.fields_by_name
    for field in event_pb2.StartCollection.DESCRIPTOR.fields:
        place = places[field.name]
        assert (place.type, place.is_repeated) == (field.type, field.is_repeated), field.name
        assert place.message_type == field.message_type, field.name


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


@pytest.mark.parametrize(("found", "said"), WRONG, ids=[said for _, said in WRONG])
def test_json_that_can_never_work_is_refused_with_the_place(found: Any, said: str) -> None:
    data = found if isinstance(found, bytes) else as_json(found)

    with pytest.raises(InvalidRequestError) as caught:
        read(incoming(data))

    assert caught.value.reason == "EVENT_MALFORMED"
    assert str(caught.value).startswith(said)


def protobuf(**fields: Any) -> bytes:
    usual: dict[str, Any] = {"type": event_pb2.EVENT_TYPE_START_COLLECTION, "event_id": "one"}
    return event_pb2.Event(**(usual | fields)).SerializeToString()


def test_the_protobuf_form_asks_for_the_same() -> None:
    start = event_pb2.StartCollection(
        sources=["https://l.test"],
        addresses=["https://a.test"],
        options=job_pb2.JobOptions(language="pt"),
        timeout=from_seconds(9),
        priority=job_pb2.PRIORITY_HIGH,
        force=True,
    )

    request = read(
        incoming(protobuf(correlation_id="c", start_collection=start), "start_collection")
    )

    assert request == CreateCollectionRequest(
        sources=["https://l.test"],
        addresses=["https://a.test"],
        options=job_pb2.JobOptions(language="pt"),
        timeout=from_seconds(9),
        priority=job_pb2.PRIORITY_HIGH,
        force=True,
        correlation_id="c",
        request_id="one",
    )


START = event_pb2.StartCollection(sources=["https://l.test"])
STRANGE = event_pb2.StartCollection.FromString(START.SerializeToString() + b"\xa8\x06\x01")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff", "not a ytcaption.v1.Event"),
        (b"", "type: must be EVENT_TYPE_START_COLLECTION, not 0"),
        (protobuf(type=event_pb2.EVENT_TYPE_COLLECTION_RESULT), "type: must be"),
        (protobuf(), "start_collection: is missing"),
        (protobuf(start_collection=START, job_id="x"), "job_id: is ours to choose"),
        (protobuf(start_collection=STRANGE), "start_collection.field 101: there is no such field"),
    ],
)
def test_protobuf_that_can_never_work_is_refused_with_the_place(data: bytes, said: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read(incoming(data, "start_collection"))

    assert caught.value.reason == "EVENT_MALFORMED"
    assert str(caught.value).startswith(said)


def test_what_a_collection_was_told_is_told_again_in_the_same_words() -> None:
    given = {"language": "pt", "timeout": 90.5, "priority": "low", "cue_rules": {"min_gap": 0.25}}
    request = asked(with_parameters(**given))
    start = event_pb2.StartCollection(
        sources=request.sources,
        options=request.options,
        timeout=request.timeout,
        priority=request.priority,
    )

    assert parameters_of(start).model_dump(exclude_none=True) == given


def test_what_may_hold_a_password_is_not_told() -> None:
    proxy = media_pb2.DownloadOptions(proxy="socks5://me:secret@proxy.test", user_agent="us")
    start = event_pb2.StartCollection(
        webhook_url="https://me:secret@hook.test",
        request_id="secret",
        options=job_pb2.JobOptions(download=proxy),
    )

    told = parameters_of(start).model_dump(exclude_none=True)

    assert told == {"download": {"user_agent": "us"}}
    assert options_of(start.options).model_dump(exclude_none=True) == told


def test_an_event_without_a_name_of_its_own_is_told_by_where_it_is_stored() -> None:
    data = as_json(event())
    first = incoming(data, deliveries=1)
    again = incoming(data, deliveries=2)
    another = incoming(data, sequence=4)
    named = [incoming(data, sequence=number, message_id="m") for number in (5, 6)]

    assert read(first).request_id == read(again).request_id
    assert read(first).request_id != read(another).request_id
    assert read(named[0]).request_id == read(named[1]).request_id
    assert first.letter_id == again.letter_id != another.letter_id
    assert named[0].letter_id != named[1].letter_id
    assert read(incoming(as_json(event(evento_id="mine")))).request_id == "mine"
    both = with_parameters(request_id="first") | {"evento_id": "second"}
    assert asked(both).request_id == "first"


@pytest.mark.parametrize(
    ("data", "form", "expected"),
    [
        (as_json(event(tipo_evento="nonsense")), "iniciar_coleta", "thread-7"),
        (b'{"correlation_id": 7}', "iniciar_coleta", ""),
        (b'{"correlation_id": "a\\ud800"}', "iniciar_coleta", "a?"),
        (b"[]", "iniciar_coleta", ""),
        (b"{", "iniciar_coleta", ""),
        (protobuf(correlation_id="c"), "start_collection", "c"),
        (b"\xff", "start_collection", ""),
    ],
)
def test_the_thread_is_read_from_whatever_can_be_read(
    data: bytes, form: str, expected: str
) -> None:
    assert readable_correlation(incoming(data, form)) == expected
