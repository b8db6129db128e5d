"""Untrusted page metadata is converted into our fields, or left empty."""

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downloader.engine import Chapter, MediaInfo
from downloader.fork_server import MAX_LINE
from downloader.metadata import from_json, to_json
from downloader.relay import REPORT_SECONDS, ProgressMeter
from ytcaption.v1 import media_pb2


def through_the_pipe(info: dict[str, Any]) -> MediaInfo:
    return from_json(json.loads(json.dumps(to_json(info))))


def test_every_field_of_a_site_is_converted() -> None:
    found = through_the_pipe(
        {
            "id": "abc",
            "title": "A talk",
            "uploader": "Somebody",
            "duration": 12.5,
            "upload_date": "20240229",
            "thumbnail": "https://i.example/x.jpg",
            "webpage_url": "https://example.com/abc",
            "extractor": "youtube",
            "ext": "webm",
            "chapters": [{"start_time": 0, "end_time": 5.5, "title": "Hello"}],
        }
    )

    assert found == MediaInfo(
        media_id="abc",
        title="A talk",
        uploader="Somebody",
        duration=timedelta(seconds=12.5),
        upload_date="2024-02-29",
        thumbnail_url="https://i.example/x.jpg",
        webpage_url="https://example.com/abc",
        extractor="youtube",
        chapters=(Chapter(timedelta(0), timedelta(seconds=5.5), "Hello"),),
        container="webm",
    )


@pytest.mark.parametrize("nonsense", ["soon", -1, float("nan"), float("inf"), 10**12, None])
def test_an_invalid_duration_stays_unset(nonsense: object) -> None:
    assert through_the_pipe({"duration": nonsense}).duration is None


@pytest.mark.parametrize("nonsense", ["2024", "2024-02-29", "yesterday", None, "²⁰²⁴⁰²²⁹"])
def test_an_invalid_day_stays_empty(nonsense: object) -> None:
    assert through_the_pipe({"upload_date": nonsense}).upload_date == ""


@given(title=st.text(st.characters(), max_size=50))
def test_any_title_fits_a_protobuf_message(title: str) -> None:
    media_pb2.MediaInfo(title=through_the_pipe({"title": title}).title)


def test_half_a_surrogate_pair_in_a_title_is_replaced() -> None:
    assert (
        media_pb2.MediaInfo(title=through_the_pipe({"title": "half \ud83d"}).title).title
        == "half ?"
    )


def test_the_longest_metadata_fits_one_message() -> None:
    long = "\N{ELEPHANT}" * 5000
    chapter = {"start_time": 1, "end_time": 2, "title": long}

    line = json.dumps(to_json({"title": long, "chapters": [chapter] * 5000}))

    assert len(line) < MAX_LINE


def test_progress_is_reported_at_most_ten_times_a_second() -> None:
    clock = 0.0
    meter = ProgressMeter(lambda: clock)
    reports = []
    for _ in range(1000):
        clock += 0.01
        if progress := meter.count(100, 100_000):
            reports.append(progress)

    assert 90 <= len(reports) <= 10 / REPORT_SECONDS
    assert [each.done_bytes for each in reports] == sorted(each.done_bytes for each in reports)
    assert reports[-1].bytes_per_second == pytest.approx(10_000, rel=0.02)
