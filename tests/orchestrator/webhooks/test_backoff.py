"""Waits grow as listed, never shorter than the receiver asks, and never without end."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from pydantic import ValidationError

from orchestrator.settings import Settings
from orchestrator.webhooks.backoff import Backoff, retry_after, waits
from orchestrator.webhooks.fairness import Hosts

USUAL = Backoff(waits(Settings().webhook_backoff))


def test_the_waits_are_those_of_the_list_and_at_most_a_fifth_longer() -> None:
    for number, seconds in enumerate([5, 30, 120, 600, 3600, 21_600, 86_400], 1):
        asked = {USUAL.after(number) for _ in range(50)}

        assert all(wait is not None and seconds <= wait <= seconds * 1.2 for wait in asked)
        assert len(asked) > 1


def test_after_the_last_wait_there_is_no_more_attempt() -> None:
    assert USUAL.after(8) is None
    assert Backoff(()).after(1) is None


def test_a_receiver_may_ask_for_more_time_but_not_for_less_nor_for_ever() -> None:
    assert USUAL.after(1, asked=50) == 50
    assert (USUAL.after(4, asked=1) or 0) >= 600
    assert USUAL.after(1, asked=10**9) == 86_400


def test_retry_after_is_seconds_or_a_date_and_anything_else_is_nothing() -> None:
    later = datetime.now(UTC) + timedelta(seconds=100)

    assert retry_after(" 120 ") == 120
    assert 90 < retry_after(format_datetime(later, usegmt=True)) <= 100
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    for nonsense in ("", "soon", "-5", "1.5", "²", "Wed, 99 Oct 99999 07:28:00 GMT"):
        assert retry_after(nonsense) == 0


@pytest.mark.parametrize("listed", ["5,x", "0", "-1,5", "nan", "86401", "1," * 50 + "1", ","])
def test_a_list_that_makes_no_sense_is_refused(listed: str) -> None:
    with pytest.raises(ValidationError, match="webhook_backoff"):
        Settings(webhook_backoff=listed)


def test_a_host_has_a_quarter_of_the_places_and_the_others_have_the_rest() -> None:
    hosts = Hosts(at_once=8)

    assert [hosts.enter("slow"), hosts.enter("slow"), hosts.enter("quick")] == [0, 0, 0]
    first, second = hosts.enter("slow"), hosts.enter("slow")
    assert 0 < first < second
    hosts.leave("slow", 15)
    assert hosts.enter("slow") == 0
    assert hosts.enter("slow") > 7  # by now its pace is known
