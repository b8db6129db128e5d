"""What an operator can set, and what is refused at once."""

from datetime import timedelta

import pytest
from pydantic import ValidationError

from downloader.engine import Limits
from downloader.settings import Settings


def test_by_default_only_the_open_internet_is_reached_and_only_from_here() -> None:
    settings = Settings()

    assert not settings.allow_private_addresses
    assert settings.listen == "127.0.0.1:50052"
    assert settings.limits == Limits(8 * 1024**3, timedelta(hours=12))


def test_variables_carry_the_services_own_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOWNLOADER_MAX_BYTES", "1000")
    monkeypatch.setenv("MAX_DOWNLOADS", "9")

    assert Settings().max_bytes == 1000
    assert Settings().max_downloads == 4


@pytest.mark.parametrize(
    ("name", "value"),
    [("MAX_DOWNLOADS", "0"), ("MAX_BYTES", "-1"), ("COOKIES_FILE", "/nowhere/cookies.txt")],
)
def test_nonsense_is_refused_before_the_service_starts(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"DOWNLOADER_{name}", value)

    with pytest.raises(ValidationError):
        Settings()


def test_a_request_gets_less_than_the_limit_but_never_more() -> None:
    ceiling = Limits(1000, timedelta(hours=1))

    assert Limits(10, timedelta(hours=2)).within(ceiling) == Limits(10, timedelta(hours=1))
    assert Limits(9999, timedelta(minutes=1)).within(ceiling) == Limits(1000, timedelta(minutes=1))
