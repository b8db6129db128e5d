"""The protobuf form asks for the same as the JSON form, and is refused as exactly."""

from typing import Any

import pytest
from google.protobuf.duration import from_seconds

from mesh.errors import InvalidRequestError
from orchestrator.events.parsing import read
from tests.orchestrator.events.incoming import incoming, protobuf
from ytcaption.v1 import event_pb2, job_pb2
from ytcaption.v1.collection_service_pb2 import CreateCollectionRequest

START = event_pb2.StartCollection(sources=["https://l.test"])
OWNED = event_pb2.StartCollection(sources=["https://l.test"], owner="ana")
STRANGE = event_pb2.StartCollection.FromString(START.SerializeToString() + b"\xa8\x06\x01")


def test_every_field_of_the_protobuf_form_but_the_owner_is_a_field_of_the_request() -> None:
    places = CreateCollectionRequest.DESCRIPTOR.fields_by_name
    for field in event_pb2.StartCollection.DESCRIPTOR.fields:
        if field.name == "owner":
            continue
        place = places[field.name]
        assert (place.type, place.is_repeated) == (field.type, field.is_repeated), field.name
        assert place.message_type == field.message_type, field.name


def test_the_protobuf_form_makes_the_same_request_as_the_json_form() -> None:
    asked: dict[str, Any] = {
        "sources": ["https://l.test"],
        "addresses": ["https://a.test"],
        "options": job_pb2.JobOptions(language="pt"),
        "timeout": from_seconds(9),
        "priority": job_pb2.PRIORITY_HIGH,
        "force": True,
    }
    start = event_pb2.StartCollection(**asked)

    request = read(
        incoming(protobuf(correlation_id="c", start_collection=start), "start_collection")
    )

    assert request == CreateCollectionRequest(**asked, correlation_id="c", request_id="one")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff", "not a ytcaption.v1.Event"),
        (b"", "type: must be EVENT_TYPE_START_COLLECTION, not 0"),
        (protobuf(type=event_pb2.EVENT_TYPE_COLLECTION_RESULT), "type: must be"),
        (protobuf(), "start_collection: is missing"),
        (protobuf(start_collection=START, job_id="x"), "job_id: is ours to choose"),
        (protobuf(start_collection=OWNED), "start_collection.owner: is ours to choose"),
        (protobuf(start_collection=STRANGE), "start_collection.field 101: there is no such field"),
    ],
)
def test_invalid_protobuf_is_refused_with_the_path_of_the_error(data: bytes, said: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read(incoming(data, "start_collection"))

    assert caught.value.reason == "EVENT_MALFORMED"
    assert str(caught.value).startswith(said)
