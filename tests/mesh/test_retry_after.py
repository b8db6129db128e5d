"""Retry-After is untrusted text: seconds or an HTTP date, and never an exception."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.retry_after import MAX_SECONDS, retry_after_seconds


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120),
        (" 120 ", 120),
        ("0", 0),
        ("1.5", 1.5),
        ("-5", 0),
        ("9999999", MAX_SECONDS),
        ("9" * 5000, MAX_SECONDS),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX_SECONDS),
    ],
)
def test_seconds_and_dates_become_a_wait_between_zero_and_a_day(
    header: str, seconds: float
) -> None:
    assert retry_after_seconds(header) == seconds


@pytest.mark.parametrize("zone", ["GMT", "+0000", "-0000", ""])
def test_a_future_date_is_the_time_until_then(zone: str) -> None:
    later = (datetime.now(UTC) + timedelta(minutes=10)).strftime("%a, %d %b %Y %H:%M:%S")

    seconds = retry_after_seconds(f"{later} {zone}".strip())

    assert seconds is not None
    assert 500 < seconds <= 600


def test_a_date_in_another_zone_is_the_same_moment() -> None:
    later = datetime.now(UTC) + timedelta(minutes=10)

    seconds = retry_after_seconds(format_datetime(later.astimezone()))

    assert seconds is not None
    assert 500 < seconds <= 600


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "soon",
        "nan",
        "inf",
        "-inf",
        "1e400",
        "1_000",
        "१२",
        "12 34",
        "Wed, 99 Oct 2015 07:28:00 GMT",
        "Wed, 21 Oct 99999999999999999999 07:28:00 GMT",
        "\0",
    ],
)
def test_what_cannot_be_read_is_no_wait_and_no_error(header: str | None) -> None:
    assert retry_after_seconds(header) is None


@given(header=st.text(max_size=200))
def test_no_text_raises(header: str) -> None:
    seconds = retry_after_seconds(header)

    assert seconds is None or 0 <= seconds <= MAX_SECONDS
