"""Variables of the earlier system: each means something here, or is named once."""

import re

import pytest

from gateway.settings import Settings as GatewaySettings
from mesh.old_names import MAPPED, MEANINGLESS, attempts_of, meaningless, overridden
from orchestrator.settings import Settings
from tests.conftest import DATA
from tests.docs.pages import page, rows

ENVIRONMENT = dict(
    re.findall(r"^([A-Z_0-9]+)=(\S+)", (DATA / "contract" / "environment.txt").read_text(), re.M)
)
"""The whole environment that its documents show."""


@pytest.fixture
def earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def test_all_twenty_variables_are_known_and_documented() -> None:
    section = page("docs/settings.md").split("## Names of the earlier system\n")[1]
    table = rows(section.split("\n## ")[0])
    documented = {
        old: row[1].strip("`") for row in table for old in re.findall(r"[A-Z_0-9]+", row[0])
    }

    assert len(ENVIRONMENT) == 20
    assert set(ENVIRONMENT) == {*MAPPED, *MEANINGLESS} == set(documented)
    assert {old: ours for old, ours in documented.items() if ours != "none"} == MAPPED


@pytest.mark.usefixtures("earlier")
def test_the_environment_of_its_documents_is_read_whole() -> None:
    settings, gateway = Settings(), GatewaySettings()

    assert (settings.max_attempts, settings.retry_seconds, settings.concurrency) == (3, 1.5, 4)
    assert (settings.downloader, settings.normalizer, settings.transcriber) == (
        *("localhost:8001", "localhost:8002", "localhost:8003"),
    )
    assert (settings.cache_hours, settings.job_seconds) == (24, 3600)
    assert (settings.download_stall_seconds, settings.transcription_stall_seconds) == (300, 600)
    assert gateway.listen == "0.0.0.0:8000"
    assert gateway.default_remove_noise


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://downloader", "downloader:50052"),
        ("https://[::1]:9/path", "[::1]:9"),
        ("host:7", "host:7"),
    ],
)
def test_an_address_is_the_host_and_port_of_the_url(
    url: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIDEO_DOWNLOADER_URL", url)

    assert Settings().downloader == address


def test_no_retries_are_one_attempt() -> None:
    assert [attempts_of(text) for text in ("0", "3", "many")] == ["1", "3", "many"]


def test_only_variables_that_are_set_and_change_nothing_are_named() -> None:
    environ = {"REDIS_URL": "redis://r", "POLL_INTERVAL": "", "WORKERS": "4", "PORT": "9"}

    assert [name for name, _ in meaningless(environ)] == ["REDIS_URL"]
    assert overridden(environ, ["GATEWAY_LISTEN"]) == [("PORT", "GATEWAY_LISTEN")]
