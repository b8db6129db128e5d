"""`ytcaption doctor --public`: what is missing is reported, and ok once it is set."""

import asyncio
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from cli.exits import Exit
from cli.local.doctor import Finding
from cli.local.public import check_broker, check_tokens, findings_of, settings_of_up
from cli.local.service_settings import CLASSES, MeshSettings, read_settings
from mesh.addresses import free_ports
from mesh.broker import answers, find_binary
from mesh.credentials import make_keys, seed_file
from mesh.settings import ServiceSettings
from mesh.tokens import write_token
from tests.docs.pages import SERVICES
from tests.support.broker import running_broker
from tests.support.certificates import Authority
from tests.support.command import environment, run
from tests.support.fake_orchestrator import serving
from tests.support.polling import until
from tests.support.processes import stop_process
from ytcaption.v1 import token_pb2

STAGES = ("downloader", "normalizer", "transcriber")
PASSWORD = "a-password-that-is-not-shown"  # noqa: S105 # of no account
TOKEN = "3f0c52d1a4b7e896"  # noqa: S105 # an id


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of ours is set."""
    prefixes = (*(f"{name.upper()}_" for name in SERVICES), "YTCAPTION_")
    for name in environment():
        if name.startswith(prefixes) or name in ("HOST", "PORT"):
            monkeypatch.delenv(name)


@pytest.fixture
def closed(tmp_path: Path) -> dict[str, str]:
    """The variables of a mesh behind a proxy, of which none is missing."""
    for name in ("admin", "stages", "metrics"):
        write_token(tmp_path / f"{name}.token")
    make_keys(tmp_path / "nats")
    variables = {
        "ORCHESTRATOR_LOGIN": "true",
        "ORCHESTRATOR_REFLECTION": "false",
        "ORCHESTRATOR_STAGES_TOKEN_FILE": str(tmp_path / "stages.token"),
        "ORCHESTRATOR_NATS_CREDENTIALS": str(seed_file(tmp_path / "nats", "orchestrator")),
        "GATEWAY_HOSTS": "captions.example",
        "GATEWAY_TRUSTED_PROXIES": "127.0.0.1",
    }
    for name in STAGES:
        variables[f"{name.upper()}_TOKEN_FILE"] = str(tmp_path / "stages.token")
    for name in SERVICES:
        variables[f"{name.upper()}_METRICS_TOKEN_FILE"] = str(tmp_path / "metrics.token")
    return variables


def found(variables: dict[str, str]) -> list[Finding]:
    return findings_of(read_settings(variables))


def bad(variables: dict[str, str]) -> list[tuple[str, str]]:
    return [(one.name, one.verdict) for one in found(variables) if one.verdict != "ok"]


def test_a_mesh_of_which_nothing_is_missing_is_ok(closed: dict[str, str]) -> None:
    assert {one.name for one in found(closed)} == {
        *("tls", "calls", "insecure", "login", "provider", "stages", "metrics", "reflection"),
        *("hosts", "proxies", "addresses", "limits", "broker key", "broker wire", "files"),
    }
    assert bad(closed) == []


PROVIDER = {
    "ORCHESTRATOR_OIDC_ISSUER": "https://id.example",
    "ORCHESTRATOR_OIDC_CLIENT_ID": "captions",
    "ORCHESTRATOR_OIDC_CLIENT_SECRET_FILE": "",
    "ORCHESTRATOR_OIDC_REDIRECT": "https://captions.example",
    "ORCHESTRATOR_OIDC_ROLES": "staff=submitter",
}


@pytest.mark.parametrize(
    ("changes", "verdict", "said"),
    [
        ({}, "", ""),
        ({"ORCHESTRATOR_OIDC_CLIENT_ID": ""}, "missing", "ORCHESTRATOR_OIDC_CLIENT_ID"),
        ({"ORCHESTRATOR_OIDC_ROLES": ""}, "missing", "ORCHESTRATOR_OIDC_ROLES"),
        ({"ORCHESTRATOR_OIDC_ROLES": "staff=root"}, "missing", "ORCHESTRATOR_OIDC_ROLES"),
        ({"ORCHESTRATOR_OIDC_ISSUER": "http://id.example"}, "missing", "OIDC_ISSUER"),
        ({"ORCHESTRATOR_OIDC_ISSUER": "http://localhost:1"}, "missing", "plain text"),
        ({"ORCHESTRATOR_OIDC_REDIRECT": "https://a.example"}, "missing", "GATEWAY_HOSTS"),
        ({"ORCHESTRATOR_OIDC_ROLES": "*=reader"}, "warning", "everyone the provider knows"),
        ({"ORCHESTRATOR_OIDC_CLIENT_SECRET_FILE": ""}, "warning", "OIDC_CLIENT_SECRET_FILE"),
    ],
)
def test_a_login_provider_must_fit_the_public_page(
    closed: dict[str, str], tmp_path: Path, changes: dict[str, str], verdict: str, said: str
) -> None:
    secret = tmp_path / "oidc.secret"
    secret.write_text(PASSWORD)
    secret.chmod(0o600)
    kept = {"ORCHESTRATOR_OIDC_CLIENT_SECRET_FILE": str(secret)}

    reported = [one for one in found(closed | PROVIDER | kept | changes) if one.verdict != "ok"]

    assert [(one.name, one.verdict) for one in reported] == [("provider", verdict)] * bool(verdict)
    assert all(said in f"{one.detail} {one.remedy}" for one in reported)


def test_a_client_secret_that_others_can_read_is_reported(
    closed: dict[str, str], tmp_path: Path
) -> None:
    secret = tmp_path / "oidc.secret"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    exposed = {"ORCHESTRATOR_OIDC_CLIENT_SECRET_FILE": str(secret)}

    assert bad(closed | PROVIDER | exposed) == [("files", "missing")]


@pytest.mark.parametrize(
    ("changes", "expected", "said"),
    [
        ({"GATEWAY_LISTEN": "0.0.0.0:8000"}, ("tls", "missing"), "GATEWAY_TLS_CERTIFICATE"),
        ({"TRANSCRIBER_METRICS_LISTEN": "[::]:1"}, ("tls", "missing"), "TRANSCRIBER_TLS_KEY"),
        ({"HOST": "192.0.2.7"}, ("tls", "missing"), "GATEWAY_LISTEN=192.0.2.7:8000"),
        ({"DOWNLOADER_TLS_CERTIFICATE": "x"}, ("tls", "missing"), "DOWNLOADER_TLS_KEY"),
        ({"GATEWAY_LISTEN": "nowhere"}, ("tls", "missing"), "is not host:port"),
        ({"GATEWAY_ORCHESTRATOR": "mesh.test:1"}, ("calls", "missing"), "GATEWAY_TLS_CA"),
        ({"ORCHESTRATOR_DOWNLOADER": "a.test:1,b.test:1"}, ("calls", "missing"), "b.test:1"),
        ({"ORCHESTRATOR_TRANSCRIBER": "a.test"}, ("calls", "missing"), "is not host:port"),
        ({"ORCHESTRATOR_LOGIN": "false"}, ("login", "missing"), "ORCHESTRATOR_LOGIN=true"),
        ({"NORMALIZER_TOKEN_FILE": ""}, ("stages", "missing"), "NORMALIZER_TOKEN_FILE"),
        (
            {"ORCHESTRATOR_STAGES_TOKEN_FILE": ""},
            ("stages", "missing"),
            "ORCHESTRATOR_STAGES_TOKEN_FILE",
        ),
        ({"GATEWAY_METRICS_TOKEN_FILE": ""}, ("metrics", "warning"), "GATEWAY_METRICS_LISTEN"),
        ({"ORCHESTRATOR_REFLECTION": "true"}, ("reflection", "warning"), "ORCHESTRATOR_REFLECTION"),
        ({"GATEWAY_HOSTS": ""}, ("hosts", "missing"), "GATEWAY_HOSTS"),
        ({"GATEWAY_HOSTS": "captions.example,*"}, ("hosts", "missing"), "every name"),
        ({"GATEWAY_TRUSTED_PROXIES": ""}, ("proxies", "missing"), "GATEWAY_TRUSTED_PROXIES"),
        ({"GATEWAY_TRUSTED_PROXIES": "*"}, ("proxies", "missing"), "every client"),
        *(
            ({variable: "true"}, ("addresses", "missing"), variable)
            for variable in (
                "DOWNLOADER_ALLOW_PRIVATE_ADDRESSES",
                "DOWNLOADER_ALLOW_CALLER_PROXY",
                "ORCHESTRATOR_WEBHOOK_PRIVATE",
            )
        ),
        *(
            ({f"{name.upper()}_INSECURE_LISTEN": "true"}, ("insecure", "missing"), name.upper())
            for name in SERVICES
        ),
        ({"ORCHESTRATOR_MIN_FREE_BYTES": "0"}, ("limits", "missing"), "disk is full"),
        ({"ORCHESTRATOR_FULL_PERCENT": "100"}, ("limits", "missing"), "store is full"),
        ({"DOWNLOADER_MIN_RATE_BYTES": "0"}, ("limits", "missing"), "slow sites"),
        ({"GATEWAY_RATE_PER_SECOND": "0"}, ("limits", "missing"), "any number of requests"),
        (
            {"ORCHESTRATOR_NATS_CREDENTIALS": ""},
            ("broker key", "missing"),
            "ORCHESTRATOR_NATS_CREDENTIALS",
        ),
        (
            {
                "ORCHESTRATOR_NATS_CREDENTIALS": "",
                "ORCHESTRATOR_NATS_URL": f"nats://ana:{PASSWORD}@127.0.0.1:4222",
            },
            ("broker key", "warning"),
            "ORCHESTRATOR_NATS_CREDENTIALS",
        ),
        ({"ORCHESTRATOR_NATS_URL": "nats://nats:4222"}, ("broker wire", "missing"), "tls://"),
        (
            {"ORCHESTRATOR_NATS_URL": f"nats://ana:{PASSWORD}/"},
            ("broker wire", "missing"),
            "address",
        ),
    ],
)
def test_what_is_missing_is_reported_with_what_to_set(
    closed: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str],
    expected: tuple[str, str],
    said: str,
) -> None:
    for variable, value in {**closed, **changes}.items():
        monkeypatch.setenv(variable, value)

    reported = [one for one in found({}) if one.verdict != "ok"]

    assert [one for one in reported if (one.name, one.verdict) == expected]
    assert all(one.name == expected[0] for one in reported)
    assert any(said in f"{one.detail} {one.remedy}" for one in reported)
    assert PASSWORD not in str(reported)


def test_tls_closes_ports_calls_stages_and_metrics(closed: dict[str, str], tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certs")
    for name in SERVICES:
        prefix = name.upper()
        tls = authority.issue(name)
        Path(tls.key).chmod(0o600)
        closed |= {
            f"{prefix}_TLS_CERTIFICATE": tls.certificate,
            f"{prefix}_TLS_KEY": tls.key,
            f"{prefix}_TLS_CA": tls.ca,
            f"{prefix}_LISTEN": "0.0.0.0:1",
            f"{prefix}_METRICS_LISTEN": "0.0.0.0:2",
            f"{prefix}_METRICS_TOKEN_FILE": "",
            f"{prefix}_TOKEN_FILE": "",
            f"{prefix}_TLS_PEERS": "orchestrator",
        }
    closed |= {
        "ORCHESTRATOR_STAGES_TOKEN_FILE": "",
        "ORCHESTRATOR_TRANSCRIBER": "speech.test:1",
        "ORCHESTRATOR_NATS_URL": "tls://nats.test:4222",
        "GATEWAY_ORCHESTRATOR": "mesh.test:1",
    }

    assert bad(closed) == []

    closed |= {"DOWNLOADER_TLS_PEERS": "", "GATEWAY_TLS_PEERS": ""}
    assert bad(closed) == [("stages", "missing"), ("metrics", "missing"), ("metrics", "missing")]


def test_a_gateway_with_tls_needs_no_proxy(closed: dict[str, str], tmp_path: Path) -> None:
    tls = Authority(tmp_path / "certs").issue("captions.example")
    Path(tls.key).chmod(0o600)
    closed |= {"GATEWAY_TLS_CERTIFICATE": tls.certificate, "GATEWAY_TLS_KEY": tls.key}
    closed |= {"GATEWAY_LISTEN": "0.0.0.0:443", "GATEWAY_TRUSTED_PROXIES": ""}

    assert bad(closed) == []


def test_the_first_token_never_ends(closed: dict[str, str], tmp_path: Path) -> None:
    closed["ORCHESTRATOR_TOKEN_FILE"] = str(tmp_path / "admin.token")

    assert bad(closed) == [("login", "warning")]


def test_a_stage_with_another_token_is_reported(closed: dict[str, str], tmp_path: Path) -> None:
    closed["NORMALIZER_TOKEN_FILE"] = str(tmp_path / "metrics.token")
    assert bad(closed) == [("stages", "missing")]

    copy = tmp_path / "copy.token"
    copy.write_text((tmp_path / "stages.token").read_text())
    copy.chmod(0o600)
    closed["NORMALIZER_TOKEN_FILE"] = str(copy)
    assert bad(closed) == []


@pytest.mark.parametrize(
    "variable",
    [
        "ORCHESTRATOR_STAGES_TOKEN_FILE",
        "ORCHESTRATOR_NATS_CREDENTIALS",
        "DOWNLOADER_METRICS_TOKEN_FILE",
        "DOWNLOADER_COOKIES_FILE",
        "TRANSCRIBER_TOKEN_FILE",
        "GATEWAY_TLS_KEY",
    ],
)
def test_a_secret_that_other_users_can_read_or_that_is_gone_is_reported(
    closed: dict[str, str], tmp_path: Path, variable: str
) -> None:
    tls = Authority(tmp_path / "certs").issue("captions.example")
    closed |= {"GATEWAY_TLS_CERTIFICATE": tls.certificate, "GATEWAY_TLS_KEY": tls.key}
    closed["DOWNLOADER_COOKIES_FILE"] = str(tmp_path / "cookies.txt")
    (tmp_path / "cookies.txt").touch()
    for file in (tls.key, closed["DOWNLOADER_COOKIES_FILE"]):
        Path(file).chmod(0o600)
    assert bad(closed) == []
    secret = tmp_path / "secret"
    secret.write_bytes(Path(closed[variable]).read_bytes())
    closed[variable] = str(secret)

    secret.chmod(0o640)
    reported = [one for one in found(closed) if one.name == "files"]
    assert [one.verdict for one in reported] == ["missing"]
    assert variable in reported[0].detail
    assert "chmod 600" in reported[0].detail

    secret.unlink()
    assert ("files", "missing") in bad(closed)


def test_a_file_without_a_token_or_a_key_is_reported(
    closed: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    file.write_text(PASSWORD)
    file.chmod(0o600)
    closed["DOWNLOADER_METRICS_TOKEN_FILE"] = str(file)
    closed["ORCHESTRATOR_NATS_CREDENTIALS"] = str(file)

    assert bad(closed) == [("broker key", "missing"), ("files", "missing")]
    assert PASSWORD not in str(found(closed))


def settings_with(url: str) -> MeshSettings:
    return read_settings({"ORCHESTRATOR_NATS_URL": url})


async def test_a_broker_with_accounts_refuses_strangers(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker:
        (finding,) = await check_broker(settings_with(broker.url))

    assert finding.verdict == "ok"


async def test_a_broker_that_accepts_strangers_is_reported() -> None:
    (port,) = free_ports(1)
    process = await asyncio.create_subprocess_exec(
        *(find_binary(), "--addr", "127.0.0.1", "--port", str(port)),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await until(lambda: _greets(port))
        (finding,) = await check_broker(settings_with(f"127.0.0.1:{port}"))
    finally:
        await stop_process(process, 10)

    assert finding.verdict == "missing"
    assert not await answers(port)


async def _greets(port: int) -> bool:
    (finding,) = await check_broker(settings_with(f"127.0.0.1:{port}"))
    return finding.verdict != "warning"


async def test_a_broker_that_does_not_answer_is_not_ok() -> None:
    (port,) = free_ports(1)

    (finding,) = await check_broker(settings_with(f"nats://ana:{PASSWORD}@127.0.0.1:{port}"))

    assert finding.verdict == "warning"
    assert PASSWORD not in str(finding)


def listed(role: "token_pb2.Role.ValueType", subject: str, **given: Any) -> token_pb2.Token:
    return token_pb2.Token(token_id=TOKEN, role=role, subject=subject, **given)


async def test_an_admin_token_that_never_ends_is_reported() -> None:
    some_time = Timestamp(seconds=1)
    harmless = [
        listed(token_pb2.ROLE_READER, "reads"),
        listed(token_pb2.ROLE_ADMIN, "ends", expire_time=some_time),
        listed(token_pb2.ROLE_ADMIN, "revoked", revoke_time=some_time),
    ]
    async with serving(tokens=harmless) as address:
        (fine,) = await check_tokens(address)
    async with serving(tokens=[*harmless, listed(token_pb2.ROLE_ADMIN, "root")]) as address:
        (endless,) = await check_tokens(address)

    assert fine.verdict == "ok"
    assert endless.verdict == "warning"
    assert "of root never ends" in endless.detail
    assert f"token revoke {TOKEN}" in endless.remedy


async def test_tokens_of_a_mesh_that_does_not_answer_are_not_ok() -> None:
    (finding,) = await check_tokens(f"127.0.0.1:{free_ports(1)[0]}")

    assert finding.verdict == "warning"


def test_up_lacks_only_what_it_cannot_know(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def reported() -> list[tuple[str, str]]:
        findings = findings_of(settings_of_up())
        return [(one.name, one.verdict) for one in findings if one.verdict != "ok"]

    assert reported() == [("reflection", "warning"), ("hosts", "missing"), ("proxies", "missing")]
    monkeypatch.setenv("GATEWAY_HOSTS", "captions.example")
    monkeypatch.setenv("GATEWAY_TRUSTED_PROXIES", "127.0.0.1")
    monkeypatch.setenv("ORCHESTRATOR_REFLECTION", "false")
    assert reported() == []
    assert list(tmp_path.iterdir()) == []  # asking makes nothing
    monkeypatch.setenv("ORCHESTRATOR_LOGIN", "false")
    assert {name for name, _ in reported()} == {"login", "stages", "metrics"}


async def test_the_command_fails_if_something_is_missing_and_shows_no_secret(
    closed: dict[str, str],
) -> None:
    closed["YTCAPTION_SERVER"] = closed["ORCHESTRATOR_NATS_URL"] = "127.0.0.1:1"

    fine = await run("doctor", "--public", **closed)
    closed["ORCHESTRATOR_NATS_URL"] = f"nats://ana:{PASSWORD}@nats.test:1"
    ended = await run("doctor", "--public", "--json", **closed)

    assert fine.code == Exit.OK, fine.out
    assert ended.code == Exit.JOB_FAILED
    findings = [json.loads(line) for line in ended.out.splitlines()]
    assert "broker wire" in [one["name"] for one in findings if one["verdict"] == "missing"]
    for secret in (PASSWORD, *secrets_in(closed)):
        assert secret not in fine.out + fine.err + ended.out + ended.err


def secrets_in(variables: dict[str, str]) -> list[str]:
    """What is in the files that are named."""
    found = [Path(file).read_text().strip() for file in variables.values() if file[0] == "/"]
    assert len(found) > 3
    return found


async def test_the_command_judges_up() -> None:
    ended = await run("doctor", "--public", "--up")

    assert ended.code == Exit.JOB_FAILED
    assert "set GATEWAY_HOSTS" in ended.out
    assert (await run("doctor", "--up")).code == Exit.USAGE


async def test_an_invalid_variable_is_named_without_its_value() -> None:
    ended = await run("doctor", "--public", ORCHESTRATOR_LOGIN=PASSWORD)

    assert ended.code == Exit.JOB_FAILED
    assert "ORCHESTRATOR_LOGIN" in ended.out
    assert PASSWORD not in ended.out + ended.err


COMPARED = [(service, name) for service, ours in CLASSES.items() for name in ours.model_fields]


def _real(service: str) -> type[ServiceSettings]:
    found: type[ServiceSettings] = import_module(f"{service}.settings").Settings
    return found


def test_settings_of_every_service_are_read() -> None:
    assert sorted(CLASSES) == SERVICES


@pytest.mark.parametrize(("service", "name"), COMPARED)
def test_a_setting_has_the_name_and_default_it_has_in_its_service(service: str, name: str) -> None:
    ours, theirs = CLASSES[service], _real(service)

    assert ours.model_config["env_prefix"] == theirs.model_config["env_prefix"]
    assert ours.model_fields[name].default == theirs.model_fields[name].default


@pytest.mark.parametrize(
    "variables", [{}, {"HOST": "::"}, {"PORT": "81"}, {"GATEWAY_LISTEN": "a:1"}]
)
def test_earlier_names_are_read_as_the_gateway_reads_them(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)

    assert read_settings({}).gateway.listen == _real("gateway")().listen
