"""Outgoing parameters: the same names as incoming ones, and no secrets."""

from orchestrator.events.parameters import options_of, parameters_of
from tests.orchestrator.events.incoming import asked, with_parameters
from ytcaption.v1 import event_pb2, job_pb2, media_pb2


def test_parameters_of_a_collection_go_out_under_the_names_they_came_in() -> None:
    given = {"language": "pt", "timeout": 90.5, "priority": "low", "cue_rules": {"min_gap": 0.25}}
    request = asked(with_parameters(**given))
    start = event_pb2.StartCollection(
        sources=request.sources,
        options=request.options,
        timeout=request.timeout,
        priority=request.priority,
    )

    assert parameters_of(start).model_dump(exclude_none=True) == given


def test_fields_that_may_hold_a_password_are_not_published() -> None:
    proxy = media_pb2.DownloadOptions(proxy="socks5://me:secret@proxy.test", user_agent="us")
    start = event_pb2.StartCollection(
        webhook_url="https://me:secret@hook.test",
        request_id="secret",
        options=job_pb2.JobOptions(download=proxy),
    )

    public = parameters_of(start).model_dump(exclude_none=True)

    assert public == {"download": {"user_agent": "us"}}
    assert options_of(start.options).model_dump(exclude_none=True) == public


def test_the_owner_of_a_collection_is_not_published_and_holds_nothing_up() -> None:
    start = event_pb2.StartCollection(sources=["https://example.test/list"], owner="ana", title="T")

    assert parameters_of(start).model_dump(exclude_none=True) == {"title": "T"}
