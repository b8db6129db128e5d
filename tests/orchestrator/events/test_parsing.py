"""Incoming events become collection requests; malformed ones are refused with the place."""

from typing import Any

import pytest
from google.protobuf.duration import from_seconds

from mesh.errors import InvalidRequestError
from orchestrator.events.parameters import PORTUGUESE, CueRules, Download, Options, Parameters
from orchestrator.events.parsing import read, readable_correlation
from tests.orchestrator.events.incoming import WRONG, asked, incoming, protobuf, with_parameters
from tests.orchestrator.events.starting import as_json, event
from ytcaption.v1 import job_pb2, media_pb2
from ytcaption.v1.collection_service_pb2 import CreateCollectionRequest


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
def test_one_string_is_a_source_to_list_and_an_array_names_recordings(
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
        "languages": ["pt", "en"],
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
    # An event has no token, so it belongs to no group.
    from_elsewhere = {"sources", "addresses", "options", "correlation_id", "group"}
    from_elsewhere |= {"source_specs", "executors"}
    of_collection = set(CreateCollectionRequest.DESCRIPTOR.fields_by_name) - from_elsewhere

    assert set(Options.model_fields) == set(job_pb2.JobOptions.DESCRIPTOR.fields_by_name)
    assert set(Parameters.model_fields) - set(Options.model_fields) == of_collection
    assert set(CueRules.model_fields) == set(media_pb2.CueRules.DESCRIPTOR.fields_by_name)
    assert set(Download.model_fields) == set(media_pb2.DownloadOptions.DESCRIPTOR.fields_by_name)


@pytest.mark.parametrize(("found", "said"), WRONG, ids=[said for _, said in WRONG])
def test_invalid_json_is_refused_with_the_path_of_the_error(found: Any, said: str) -> None:
    data = found if isinstance(found, bytes) else as_json(found)

    with pytest.raises(InvalidRequestError) as caught:
        read(incoming(data))

    assert caught.value.reason == "EVENT_MALFORMED"
    assert str(caught.value).startswith(said)


def test_an_event_without_an_id_is_identified_by_its_stream_position() -> None:
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
def test_the_correlation_id_is_read_even_from_a_malformed_event(
    data: bytes, form: str, expected: str
) -> None:
    assert readable_correlation(incoming(data, form)) == expected
