"""What strangers' pages say is told in our words, or not at all."""

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from downloader.engine import Chapter, Found
from downloader.facts import describe, found_in
from downloader.nursery import MAX_LINE
from downloader.relay import REPORT_SECONDS, Meter
from ytcaption.v1.media_pb2 import MediaInfo


def through_the_pipe(info: dict[str, Any]) -> Found:
    return found_in(json.loads(json.dumps(describe(info))))


def test_a_known_site_tells_everything() -> None:
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

    assert found == Found(
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
def test_a_length_that_is_none_stays_unset(nonsense: object) -> None:
    assert through_the_pipe({"duration": nonsense}).duration is None


@pytest.mark.parametrize("nonsense", ["2024", "2024-02-29", "yesterday", None, "²⁰²⁴⁰²²⁹"])
def test_a_day_that_is_none_stays_empty(nonsense: object) -> None:
    assert through_the_pipe({"upload_date": nonsense}).upload_date == ""


@given(title=st.text(st.characters(), max_size=50))
def test_any_title_can_be_sent_on(title: str) -> None:
    MediaInfo(title=through_the_pipe({"title": title}).title)


def test_half_a_character_does_not_stop_a_recording() -> None:
    assert MediaInfo(title=through_the_pipe({"title": "half \ud83d"}).title).title == "half ?"


def test_the_most_a_page_can_say_fits_one_message() -> None:
    long = "\N{ELEPHANT}" * 5000
    chapter = {"start_time": 1, "end_time": 2, "title": long}

    line = json.dumps(describe({"title": long, "chapters": [chapter] * 5000}))

    assert len(line) < MAX_LINE


def test_progress_is_told_at_most_ten_times_a_second() -> None:
    clock = 0.0
    meter = Meter(lambda: clock)
    told = []
    for _ in range(1000):
        clock += 0.01
        if moved := meter.count(100, 100_000):
            told.append(moved)

    assert 90 <= len(told) <= 10 / REPORT_SECONDS
    assert [each.done_bytes for each in told] == sorted(each.done_bytes for each in told)
    assert told[-1].bytes_per_second == pytest.approx(10_000, rel=0.02)
