"""A source type's parameters name channels, playlists, searches and recordings."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from yt_dlp.extractor.youtube import YoutubeIE, YoutubePlaylistIE, YoutubeTabIE

from mesh.errors import InvalidRequestError
from orchestrator.events.source_types import NothingNamedError
from orchestrator.tasks.source_names import MAX_FOUND
from tests.orchestrator.events.incoming import asked
from tests.orchestrator.events.starting import event
from ytcaption.v1 import task_pb2
from ytcaption.v1.collection_service_pb2 import CreateCollectionRequest

ID = "UC_x5XG1OV2P6uZZ5FSM9Ttw"


def request(fonte: str = "youtube", **parameters: Any) -> CreateCollectionRequest:
    return asked(event(payload={"fonte": fonte, "parametros": parameters}))


@pytest.mark.parametrize(
    ("canal", "address"),
    [
        ("canal_exemplo", "https://www.youtube.com/@canal_exemplo"),
        (" @canal_exemplo ", "https://www.youtube.com/@canal_exemplo"),
        ("@ciência", "https://www.youtube.com/@ci%C3%AAncia"),
        (ID, f"https://www.youtube.com/channel/{ID}"),
        ("https://www.youtube.com/c/exemplo", "https://www.youtube.com/c/exemplo"),
        ("youtube.com/@exemplo", "https://youtube.com/@exemplo"),
    ],
)
def test_a_channel_is_named_by_name_handle_id_or_address(canal: str, address: str) -> None:
    assert list(request(canal=canal).sources) == [address]
    assert YoutubeTabIE.suitable(address)


def test_playlists_are_listed_and_a_video_is_one_recording() -> None:
    found = request(playlist="PLabcdefghijklm", video="dQw4w9WgXcQ")

    assert list(found.sources) == ["https://www.youtube.com/playlist?list=PLabcdefghijklm"]
    assert list(found.addresses) == ["https://www.youtube.com/watch?v=dQw4w9WgXcQ"]
    assert YoutubeTabIE.suitable(found.sources[0]) or YoutubePlaylistIE.suitable(found.sources[0])
    assert YoutubeIE.suitable(found.addresses[0])


@pytest.mark.parametrize(
    ("limit", "source"),
    [(0, "ytsearch20:owls at night"), (7, "ytsearch7:owls at night"), (5000, "ytsearch200:")],
)
def test_a_search_finds_a_bounded_number_of_recordings(limit: int, source: str) -> None:
    [found] = request(busca="owls at night", limite=limit).sources

    assert found.startswith(source)
    assert MAX_FOUND == 200


def test_a_parameter_may_name_several() -> None:
    found = request(canal=["one", "@two"], url="https://other.test/feed")

    assert list(found.sources) == [
        "https://www.youtube.com/@one",
        "https://www.youtube.com/@two",
        "https://other.test/feed",
    ]


def test_the_type_url_lists_any_address() -> None:
    assert list(request("url", url="https://a.test/feed").sources) == ["https://a.test/feed"]


@pytest.mark.parametrize("payload", [{}, {"param": "valor"}, {"fonte": "youtube"}])
def test_a_message_that_names_nothing_is_told_apart_from_a_malformed_one(payload: Any) -> None:
    with pytest.raises(NothingNamedError):
        asked(event(payload=payload))
    with pytest.raises(InvalidRequestError) as caught:
        asked(event(payload=payload, timestamp="yesterday"))
    assert not isinstance(caught.value, NothingNamedError)


def test_any_other_type_is_a_collector_and_gets_what_is_no_parameter_of_the_collection() -> None:
    found = request("blog", url="https://a.test", tempo_limite=30, idioma="pt")
    [spec] = found.source_specs
    assert (spec.type, MessageToDict(spec.parameters)) == ("blog", {"url": "https://a.test"})
    assert (found.timeout.ToSeconds(), found.options.language) == (30, "pt")
    assert not found.sources


def test_collectors_and_executors_are_named_beside_a_source() -> None:
    found = asked(
        event(
            payload={
                "fonte": "youtube",
                "parametros": {"canal": "one"},
                "fontes": [{"tipo": "blog", "parametros": {"url": "https://a.test"}}],
                "executadores": [{"tipo": "resumo", "escopo": "item"}],
            }
        )
    )
    assert list(found.sources) == ["https://www.youtube.com/@one"]
    assert [one.type for one in found.source_specs] == ["blog"]
    assert [(one.kind, one.scope) for one in found.executors] == [
        ("resumo", task_pb2.EXECUTOR_SCOPE_ITEM)
    ]


@pytest.mark.parametrize(
    ("fonte", "parameters", "said"),
    [
        ("url", {"canal": "x"}, "payload.parametros.canal: not with the source type url"),
        ("youtube", {"canal": "two words"}, "payload.parametros.canal: 'two words' is not"),
        ("youtube", {"canal": "../x"}, "payload.parametros.canal: '../x' is not"),
        ("youtube", {"playlist": "a&b"}, "payload.parametros.playlist: 'a&b' is not"),
        ("youtube", {"video": "short"}, "payload.parametros.video: 'short' is not"),
        ("youtube", {"url": "ftp://a.test"}, "payload.parametros.url: 'ftp://a.test' is not"),
        ("youtube", {"busca": "a\nb"}, "payload.parametros.busca: 'a\\nb' is not"),
        ("youtube", {"canal": 7}, "payload.parametros.canal: must be a text or a list of texts"),
        ("https://a.test", {"canal": "x"}, "payload.parametros.canal: only with a source type"),
    ],
)
def test_nonsense_is_refused_with_its_place(fonte: str, parameters: Any, said: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        request(fonte, **parameters)

    assert caught.value.reason == "EVENT_MALFORMED"
    assert str(caught.value).startswith(said)
