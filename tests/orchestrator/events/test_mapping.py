"""What is told of parameters: the words they came in, and no secrets."""

from orchestrator.heralds.messages import options_of, parameters_of
from tests.orchestrator.heralds.incoming import asked, with_parameters
from ytcaption.v1 import event_pb2, job_pb2, media_pb2


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
