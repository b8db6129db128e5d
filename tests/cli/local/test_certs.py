"""`ytcaption certs init`, and `up` with and without certificates."""

import signal
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from cli.local.certs import NAMES
from mesh.addresses import free_row
from mesh.tls import Tls
from tests.support.command import alive, finish, next_line, run, start


def certificate(folder: Path, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())


def names_of(found: x509.Certificate) -> list[str]:
    extension = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return [str(one.value) for one in extension.value]


async def test_every_service_gets_a_certificate_of_one_authority(tmp_path: Path) -> None:
    folder = tmp_path / "certs"

    made = await run("certs", "init", str(folder), "--host", "captions.test", "--host", "192.0.2.7")

    assert made.code == 0, made.err
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for name in (*NAMES, "ca"):
        assert stat.S_IMODE((folder / f"{name}.key").stat().st_mode) == 0o600
    authority = certificate(folder, "ca")
    for name in NAMES:
        found = certificate(folder, name)
        found.verify_directly_issued_by(authority)
        hosts = ["localhost", "127.0.0.1", "::1", "captions.test", "192.0.2.7"]
        assert names_of(found) == ([name] if name == "client" else [name, *hosts])
        Tls(*(str(folder / file) for file in (f"{name}.crt", f"{name}.key", "ca.crt"))).read()
    uses = certificate(folder, "client").extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert list(uses.value) == [ExtendedKeyUsageOID.CLIENT_AUTH]


async def test_renewing_keeps_the_authority_and_the_hosts(tmp_path: Path) -> None:
    await run("certs", "init", str(tmp_path), "--host", "captions.test")
    authority = (tmp_path / "ca.crt").read_bytes(), (tmp_path / "ca.key").read_bytes()
    before = certificate(tmp_path, "gateway")

    renewed = await run("certs", "init", str(tmp_path), "--host", "more.test", "--days", "30")

    after = certificate(tmp_path, "gateway")
    assert renewed.code == 0, renewed.err
    assert ((tmp_path / "ca.crt").read_bytes(), (tmp_path / "ca.key").read_bytes()) == authority
    assert after.serial_number != before.serial_number
    assert after.not_valid_after_utc < before.not_valid_after_utc
    assert names_of(after) == [*names_of(before), "more.test"]
    after.verify_directly_issued_by(certificate(tmp_path, "ca"))


async def test_an_authority_is_never_replaced_because_half_of_it_is_missing(tmp_path: Path) -> None:
    await run("certs", "init", str(tmp_path))
    before = (tmp_path / "ca.crt").read_bytes()
    (tmp_path / "ca.key").unlink()

    refused = await run("certs", "init", str(tmp_path))

    assert refused.code == 3
    assert "ca.key" in refused.err
    assert (tmp_path / "ca.crt").read_bytes() == before


@pytest.mark.parametrize(("host", "said"), [("orchestrator", "may have its name"), ("ä", "'ä'")])
async def test_a_host_that_is_a_service_or_no_host_is_refused(
    tmp_path: Path, host: str, said: str
) -> None:
    refused = await run("certs", "init", str(tmp_path), "--host", host)

    assert refused.code == 2
    assert said in refused.err


@pytest.mark.parametrize("option", ["--host", "--http-host"])
async def test_up_beyond_loopback_without_tls_is_one_line(
    tmp_path: Path, mesh: dict[str, str], option: str
) -> None:
    arguments = ["up", option, "0.0.0.0", "--data-dir", str(tmp_path / "data")]  # noqa: S104 # refused

    refused = await run(*arguments, **mesh)

    assert refused.code == 3
    (line,) = refused.err.splitlines()
    assert "--insecure-listen" in line
    assert "--certs" in line
    assert alive(mesh) == []


async def test_a_gateway_beyond_loopback_without_the_login_is_one_line(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    certs = tmp_path / "certs"
    await run("certs", "init", str(certs))
    arguments = ["up", "--certs", str(certs), "--http-host", "0.0.0.0"]  # noqa: S104 # refused
    arguments += ["--data-dir", str(tmp_path / "data")]

    refused = await run(*arguments, **mesh, ORCHESTRATOR_LOGIN="false")

    assert refused.code == 3
    (line,) = refused.err.splitlines()
    assert "without a login" in line
    assert "ORCHESTRATOR_LOGIN" in line
    assert alive(mesh) == []


@pytest.mark.parametrize("protected", [True, False])
async def test_up_beyond_loopback_starts_with_certificates_or_with_permission(
    tmp_path: Path, mesh: dict[str, str], protected: bool
) -> None:
    certs, first = tmp_path / "certs", free_row(4)
    await run("certs", "init", str(certs))
    usual = ["--port", str(first), "--metrics-port", "0", "--http-port", "0", "--nats-port", "0"]
    added = ["--certs", str(certs)] if protected else ["--insecure-listen"]
    where = ["--host", "0.0.0.0", "--data-dir", str(tmp_path / "data")]  # noqa: S104 # meant

    process = await start("up", *usual, *where, *added, **mesh)
    ready = await next_line(process)
    server = f"127.0.0.1:{first}"
    own = {
        "YTCAPTION_TLS_CA": str(certs / "ca.crt"),
        "YTCAPTION_TLS_CERTIFICATE": str(certs / "client.crt"),
        "YTCAPTION_TLS_KEY": str(certs / "client.key"),
    }
    answered = await run("jobs", "--server", server, **(own if protected else {}))
    plain = await run("jobs", "--server", server)
    process.send_signal(signal.SIGTERM)
    ended = await finish(process)

    assert "ready" in ready, ended.err
    assert answered.code == 0, answered.err
    assert plain.code == (4 if protected else 0)
    assert ("speaks TLS" in plain.err) == protected


async def test_an_embedded_mesh_stays_plain_whatever_the_environment_says(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    await run("certs", "init", str(tmp_path / "certs"))
    files = {
        f"{name}_TLS_{key}": str(tmp_path / "certs" / f"{name.lower()}.{end}")
        for name in ("ORCHESTRATOR", "DOWNLOADER")
        for key, end in (("CERTIFICATE", "crt"), ("KEY", "key"))
    }
    done = await run("transcribe", "https://example.net/v", **mesh, **files)

    assert done.code == 0, done.err
