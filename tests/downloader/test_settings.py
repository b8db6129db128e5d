"""Settings are validated at startup and reach the engine."""

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from downloader.commands import ClientOptions
from downloader.engine import MediaLimits
from downloader.settings import Settings
from downloader.ytdlp_engine import ServiceLimits


def test_by_default_only_the_open_internet_is_reached_and_only_from_here() -> None:
    settings = Settings()

    assert not settings.allow_private_addresses
    assert settings.listen == "127.0.0.1:50052"
    assert settings.media_limits == MediaLimits(8 * 1024**3, timedelta(hours=12))


def test_variables_carry_the_services_own_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOWNLOADER_MAX_BYTES", "1000")
    monkeypatch.setenv("MAX_DOWNLOADS", "9")

    assert Settings().max_bytes == 1000
    assert Settings().max_downloads == 16


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_DOWNLOADS", "0"),
        ("MAX_BYTES", "-1"),
        ("COOKIES_FILE", "/nowhere/cookies.txt"),
        ("JS_RUNTIME", "/nowhere/deno"),
        ("PROXY", "gopher://example.com"),
        ("SOURCE_ADDRESS", "here"),
        ("USER_AGENT", "a\nb"),
        ("SLEEP_SECONDS", "-1"),
        ("RATE_LIMIT_BYTES", "-1"),
        ("MAX_VIDEOS", "0"),
    ],
)
def test_invalid_settings_are_refused_before_the_service_starts(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"DOWNLOADER_{name}", value)

    with pytest.raises(ValidationError):
        Settings()


def test_a_request_gets_less_than_the_limit_but_never_more() -> None:
    ceiling = MediaLimits(1000, timedelta(hours=1))

    assert MediaLimits(10, timedelta(hours=2)).within(ceiling) == MediaLimits(
        10, timedelta(hours=1)
    )
    assert MediaLimits(9999, timedelta(minutes=1)).within(ceiling) == MediaLimits(
        1000, timedelta(minutes=1)
    )


def test_every_setting_about_sites_reaches_the_engine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "some"
    file.touch()
    values = {
        "SOCKET_TIMEOUT_SECONDS": "3",
        "PROXY": "socks5h://proxy.example:1080",
        "SOURCE_ADDRESS": "127.0.0.7",
        "USER_AGENT": "Us/1",
        "RATE_LIMIT_BYTES": "1000",
        "SLEEP_SECONDS": "0.5",
        "COOKIES_FILE": str(file),
        "JS_RUNTIME": str(file),
        "FFMPEG": str(file),
        "ALLOW_PRIVATE_ADDRESSES": "true",
        "ALLOW_CALLER_PROXY": "true",
        "MAX_DOWNLOADS": "7",
        "MAX_VIDEOS": "8",
        "MAX_ENTRIES": "9",
        "MAX_SPOOL_BYTES": "10",
    }
    for name, value in values.items():
        monkeypatch.setenv(f"DOWNLOADER_{name}", value)

    assert Settings().client_options == ClientOptions(
        socket_timeout_seconds=3,
        proxy=values["PROXY"],
        source_address="127.0.0.7",
        user_agent="Us/1",
        max_bytes_per_second=1000,
        request_interval_seconds=0.5,
        cookies_file=str(file),
        js_runtime=str(file),
        ffmpeg=str(file),
        allow_private_addresses=True,
    )
    assert Settings().service_limits == ServiceLimits(7, 8, 9, 10, allow_caller_proxy=True)
