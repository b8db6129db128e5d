"""The retry policy: waits grow, never end before what the other side asked for, and are capped."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from pydantic import ValidationError

from mesh.errors import UnavailableError
from mesh.reasons import Reason
from mesh.retry_after import retry_after_seconds
from orchestrator.settings import Settings
from orchestrator.worker.retry import Backoff, Schedule

DAY = 86_400
WEBHOOKS = Schedule.parse(Settings().webhook_backoff)
ATTEMPTS = Backoff(first=2, limit=300)
SAMPLES = 50


def asking(seconds: float | None) -> UnavailableError:
    """A failure of a side that wants to be left alone for so long."""
    reason = Reason.RATE_LIMITED
    return UnavailableError("try later", reason=reason, retry_after_seconds=seconds)


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 2), (1, 2), (2, 4), (3, 8), (8, 256), (9, 300), (10_000, 300)]
)
def test_backoff_doubles_up_to_its_limit_and_jitter_adds_at_most_a_fifth(
    failures: int, seconds: float
) -> None:
    waits = {ATTEMPTS.delay(failures) for _ in range(SAMPLES)}

    assert all(seconds <= wait <= seconds * 1.2 for wait in waits)
    assert len(waits) > 1


@pytest.mark.parametrize("asked", [3, 50, 1000, DAY])
def test_backoff_never_ends_before_what_the_other_side_asked_for(asked: float) -> None:
    assert all(ATTEMPTS.delay(1, asking(asked)) >= asked for _ in range(SAMPLES))
    assert ATTEMPTS.delay(9, asking(1)) >= 300
    assert ATTEMPTS.delay(1, asking(10**9)) == DAY


def test_a_schedule_waits_as_listed_and_jitter_adds_at_most_a_fifth() -> None:
    for number, seconds in enumerate([5, 30, 120, 600, 3600, 21_600, DAY], 1):
        waits = {WEBHOOKS.delay(number) for _ in range(SAMPLES)}

        assert all(wait is not None and seconds <= wait <= seconds * 1.2 for wait in waits)
        assert len(waits) > 1


def test_a_schedule_gives_up_after_its_last_wait() -> None:
    assert WEBHOOKS.delay(8) is None
    assert Schedule(()).delay(1) is None


def test_a_receiver_can_lengthen_a_wait_up_to_a_day_but_not_shorten_it() -> None:
    assert WEBHOOKS.delay(1, asking(50)) == 50
    assert (WEBHOOKS.delay(4, asking(1)) or 0) >= 600
    assert WEBHOOKS.delay(1, asking(10**9)) == DAY


def test_a_retry_after_header_lengthens_a_wait_and_an_unreadable_one_does_not() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)

    assert WEBHOOKS.delay(1, asking(retry_after_seconds(" 120 "))) == 120
    assert 80 < (WEBHOOKS.delay(1, asking(retry_after_seconds(later))) or 0) <= 100
    for unreadable in ("Wed, 21 Oct 2015 07:28:00 GMT", "", "soon", "-5", "1.5", "²"):
        assert (WEBHOOKS.delay(1, asking(retry_after_seconds(unreadable))) or 0) <= 6


@pytest.mark.parametrize("listed", ["5,x", "0", "-1,5", "nan", "86401", "1," * 50 + "1", ","])
def test_an_unusable_schedule_is_refused(listed: str) -> None:
    with pytest.raises(ValidationError, match="webhook_backoff"):
        Settings(webhook_backoff=listed)
