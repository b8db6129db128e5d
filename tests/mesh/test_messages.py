"""Messages and plain values turn into each other without loss."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from mesh.messages import (
    copy_shared,
    dataclass_from,
    enum_name,
    enum_names,
    enum_number,
    fill,
    message_from,
    plain,
)
from ytcaption.v1 import collection_service_pb2, event_pb2, job_pb2, media_pb2
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb


@dataclass(frozen=True)
class Progress:
    """A dataclass with the fields of MediaProgress."""

    done: timedelta
    total: timedelta | None = None


VALUES = {
    "language": "pt",
    "remove_noise": False,
    "captions_policy": "prefer_human",
    "loudness_lufs": -16.5,
    "cue_rules": {"max_lines": 1, "min_gap": 0.25},
    "download": {"max_bytes_per_second": 2**62},
    "languages": ["pt", "en"],
}


def test_values_pass_both_ways_without_loss() -> None:
    options = job_pb2.JobOptions()

    fill(options, VALUES)

    assert options.captions_policy == job_pb2.CAPTIONS_POLICY_PREFER_HUMAN
    assert options.cue_rules.min_gap.ToMilliseconds() == 250
    assert plain(options) == VALUES


def test_values_left_out_leave_fields_unset() -> None:
    options = job_pb2.JobOptions()

    fill(options, {"language": None, "cue_rules": {"max_lines": None}, "download": {"proxy": ""}})

    assert options.ListFields() == []


def test_an_unspecified_value_counts_as_unset() -> None:
    unspecified = job_pb2.CAPTIONS_POLICY_UNSPECIFIED

    assert plain(job_pb2.JobOptions(captions_policy=unspecified)) == {}


def test_a_name_the_contract_does_not_have_is_an_error() -> None:
    with pytest.raises(KeyError):
        fill(job_pb2.JobOptions(), {"misspelt": True})


def test_enum_values_go_by_their_names_without_the_prefix() -> None:
    enum = media_pb2.CaptionFormat.DESCRIPTOR

    assert enum_names(enum)[:2] == ("srt", "vtt")
    assert enum_name(enum, media_pb2.CAPTION_FORMAT_LRC) == "lrc"
    assert enum_number(enum, "lrc") == media_pb2.CAPTION_FORMAT_LRC
    with pytest.raises(KeyError):
        enum_name(enum, 99)


def test_shared_fields_are_copied_and_others_left_alone() -> None:
    start = transcriber_pb.TranscribeStart(job_id="j")

    copy_shared(job_pb2.JobOptions(beam_size=3, remove_noise=True, word_timestamps=True), start)

    assert start == transcriber_pb.TranscribeStart(job_id="j", beam_size=3, word_timestamps=True)


def test_dataclasses_pass_both_ways_without_loss() -> None:
    for progress in (Progress(timedelta(seconds=1.5)), Progress(timedelta(0), timedelta(hours=2))):
        message = message_from(media_pb2.MediaProgress, progress)

        assert message.HasField("total") == (progress.total is not None)
        assert dataclass_from(Progress, message) == progress


def test_a_dataclass_field_the_message_lacks_is_an_error() -> None:
    with pytest.raises(ValueError, match="done"):
        message_from(media_pb2.ByteProgress, Progress(timedelta(0)))
    with pytest.raises(KeyError):
        dataclass_from(Progress, media_pb2.ByteProgress())


def test_shared_messages_and_lists_are_copied_even_if_empty() -> None:
    start = event_pb2.StartCollection(sources=["a", "b"], title="t")
    start.options.download.SetInParent()
    start.timeout.SetInParent()
    request = collection_service_pb2.CreateCollectionRequest(correlation_id="c")

    copy_shared(start, request)

    expected = collection_service_pb2.CreateCollectionRequest(
        correlation_id="c",
        sources=["a", "b"],
        title="t",
        options=start.options,
        timeout=start.timeout,
    )
    assert request == expected
    assert request.HasField("timeout")
