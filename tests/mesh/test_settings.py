"""A service that is not safe to start does not start, and one line names the setting."""

import subprocess
import sys
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from mesh.errors import InvalidRequestError
from mesh.settings import ServiceSettings
from mesh.tls import Tls
from tests.docs.pages import SERVICES
from tests.support.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def settings_of(service: str, tls: Tls, **given: Any) -> ServiceSettings:
    files = {f"tls_{name}": value for name, value in asdict(tls).items()}
    settings: ServiceSettings = import_module(f"{service}.settings").Settings(**files, **given)
    return settings


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("name", ["listen", "metrics_listen"])
@pytest.mark.parametrize("address", ["0.0.0.0:1", "[::]:1", "192.0.2.7:1", "captions.test:1", ":1"])
def test_listening_beyond_loopback_without_tls_is_refused(
    service: str, name: str, address: str
) -> None:
    prefix = service.upper()
    with pytest.raises(InvalidRequestError) as refused:
        settings_of(service, Tls(), **{name: address}).check()

    message = str(refused.value)
    assert "\n" not in message
    for setting in (name.upper(), "TLS_CERTIFICATE", "TLS_KEY", "INSECURE_LISTEN"):
        assert f"{prefix}_{setting}" in message
    assert address in message


@pytest.mark.parametrize("service", SERVICES)
def test_loopback_or_tls_or_permission_is_enough(service: str, authority: Authority) -> None:
    open_wide = {"listen": "0.0.0.0:1", "metrics_listen": "[::]:1"}

    settings_of(service, Tls()).check()
    settings_of(service, Tls(), listen="localhost:1", metrics_listen="[::1]:1").check()
    settings_of(service, Tls(), listen="127.8.8.8:1", metrics_listen="").check()
    login = {"login": True} if service == "orchestrator" else {}
    settings_of(service, authority.issue(service), **login, **open_wide).check()
    settings_of(service, Tls(), insecure_listen=True, **open_wide).check()


def test_the_orchestrator_beyond_loopback_needs_to_know_its_callers(authority: Authority) -> None:
    tls = authority.issue("orchestrator")
    with pytest.raises(InvalidRequestError, match=r"without a login.*ORCHESTRATOR_LOGIN=true"):
        settings_of("orchestrator", tls, listen="0.0.0.0:1").check()

    settings_of("orchestrator", tls, listen="0.0.0.0:1", login=True).check()
    settings_of("orchestrator", replace(tls, peers="client"), listen="0.0.0.0:1").check()
    settings_of("orchestrator", tls, listen="0.0.0.0:1", insecure_listen=True).check()
    settings_of("orchestrator", tls, metrics_listen="0.0.0.0:1").check()


def test_files_that_cannot_be_used_are_refused(authority: Authority, tmp_path: Path) -> None:
    good, other = authority.issue("downloader"), authority.issue("other")
    locked = tmp_path / "locked.key"
    key: Any = load_pem_private_key(Path(good.key).read_bytes(), None)
    protected = BestAvailableEncryption(b"secret")
    locked.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protected))
    for tls, said in (
        (Tls(certificate=good.certificate), "DOWNLOADER_TLS_KEY"),
        (Tls(key=good.key), "DOWNLOADER_TLS_CERTIFICATE"),
        (Tls(ca=good.ca, peers="orchestrator"), "DOWNLOADER_TLS_PEERS"),
        (Tls(good.certificate, good.key, "system", "orchestrator"), "DOWNLOADER_TLS_PEERS"),
        (Tls(good.certificate, other.key), "cannot be used together"),
        (Tls(good.certificate, str(locked)), "cannot be used together"),
        (Tls(ca=good.key), "cannot be used together"),
        (Tls(ca=str(tmp_path / "gone.crt")), "gone.crt: No such file"),
    ):
        with pytest.raises(InvalidRequestError, match=said) as refused:
            settings_of("downloader", tls).check()
        assert str(refused.value).startswith("DOWNLOADER_TLS_")


def test_the_process_says_so_in_one_line_and_exits_as_misconfigured() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "normalizer"],
        env={"PYTHONPATH": ".:gen", "NORMALIZER_LISTEN": "0.0.0.0:0"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 78
    assert ended.stderr == (
        "normalizer: NORMALIZER_LISTEN=0.0.0.0:0 without TLS is refused: set "
        "NORMALIZER_TLS_CERTIFICATE and NORMALIZER_TLS_KEY, or NORMALIZER_INSECURE_LISTEN=true\n"
    )
