"""`ytcaption doctor --public`: what a mesh lacks before strangers may reach it.

It reads the settings of the services from the environment, as they do; no secret is printed.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from platformdirs import user_data_dir

from cli.channel import Server, call, connected, is_serving, tls_of_command
from cli.exits import CommandError, Exit
from cli.local.doctor import Finding, check_disk, report
from cli.local.mesh import SERVICES, MeshPlan, variables_of
from cli.local.service_settings import MeshSettings, read_settings
from cli.local.up import OWN_TOKEN, UpOptions, plan_for, refuse_open_ports, token_file_of
from cli.options import DEFAULT_SERVER
from cli.token_files import token_of_command
from mesh.addresses import is_loopback, split
from mesh.broker import PORT, greeting
from mesh.credentials import login, seed_file
from mesh.errors import InvalidRequestError, MeshError
from mesh.login_provider import EVERYONE as PEOPLE
from mesh.login_provider import faults, role_table
from mesh.private import exposure_of
from mesh.tls import TlsError
from mesh.tokens import read_token
from ytcaption.v1 import auth_service_pb2 as auth_pb
from ytcaption.v1 import token_pb2

EVERYONE = ("*", "0.0.0.0/0", "::/0")
ANY_HOST = "*"
PAGE_SIZE = 100
AGAIN = "make one that ends: `ytcaption token create NAME --role admin --hours 720`"

Problems = Iterator[Finding]


async def examine_public(*, as_json: bool, up: bool) -> Exit:
    """Prints a line for each finding; exits with 1 if something needed is missing.

    With `up` the settings are those that `ytcaption up` would start the services with.
    """
    try:
        mesh = settings_of_up() if up else read_settings({})
    except ValueError as error:
        invalid = [Finding("settings", "missing", line) for line in str(error).splitlines()]
        return report(invalid, as_json=as_json)
    findings = [*findings_of(mesh), check_disk()]
    if not up:  # its broker always is on loopback, with keys, and not running yet
        findings += await check_broker(mesh)
    findings += await check_tokens(os.environ.get("YTCAPTION_SERVER") or DEFAULT_SERVER)
    return report(findings, as_json=as_json)


def settings_of_up() -> MeshSettings:
    """The settings of the services of `ytcaption up` without options."""
    data_dir = Path(user_data_dir("ytcaption", appauthor=False)).absolute()
    plan = plan_for(UpOptions("127.0.0.1", 50_051, 9101, None, False, http_port=8000), data_dir)
    refuse_open_ports(plan)
    plan = token_file_of(plan)
    variables: dict[str, str] = {}
    for name in (*SERVICES, "gateway"):
        variables |= variables_of(name, plan)
    return read_settings(variables, _made_at_start(plan))


def _made_at_start(plan: MeshPlan) -> frozenset[str]:
    made = {plan.stages_token, plan.metrics_token}
    if not os.environ.get(OWN_TOKEN) and plan.token_file is not None:
        made.add(plan.token_file)
    key = seed_file(plan.credentials_dir, "orchestrator")
    if not key.exists():  # up has not been started yet
        made.add(key)
    return frozenset(map(str, made))


def findings_of(mesh: MeshSettings) -> list[Finding]:
    """The findings about settings and files: at least one of each check."""
    checks: tuple[tuple[str, str, Callable[[MeshSettings], Problems]], ...] = (
        ("tls", "every port is on loopback, or has TLS", _exposed_ports),
        ("calls", "no call leaves this machine in plain text", _plain_calls),
        ("insecure", "no service may listen without protection", _permissions),
        ("login", "every call needs a token", _open_orchestrator),
        ("provider", _provider_in_words(mesh), _provider),
        ("stages", "a stage accepts the orchestrator alone", _open_stages),
        ("metrics", "metrics need a token or a certificate", _open_metrics),
        ("reflection", "off", _reflection),
        ("hosts", f"answers to {mesh.gateway.hosts}", _hosts),
        ("proxies", _proxies_in_words(mesh), _proxies),
        ("addresses", "nothing is fetched from private networks", _private_addresses),
        ("limits", "disk, download rate and requests are limited", _limits),
        ("broker key", "the orchestrator logs in to the broker", _broker_login),
        ("broker wire", "the broker is on loopback, or has TLS", _broker_wire),
        ("files", "keys and tokens are readable by their owner alone", _readable_files),
    )
    found: list[Finding] = []
    for name, fine, problems in checks:
        found += list(problems(mesh)) or [Finding(name, "ok", fine)]
    return found


def _exposed_ports(mesh: MeshSettings) -> Problems:
    for settings in mesh.services.values():
        try:
            settings.tls.check(settings.model_config.get("env_prefix", ""))
            for port, missing, remedy in settings.exposures():
                yield Finding("tls", "missing", f"{port} without {missing}", remedy)
        except (TlsError, InvalidRequestError) as error:
            yield Finding("tls", "missing", str(error))


def _plain_calls(mesh: MeshSettings) -> Problems:
    behind = mesh.orchestrator
    targets = {
        "ORCHESTRATOR_DOWNLOADER": (behind.downloader, behind.tls.ca),
        "ORCHESTRATOR_NORMALIZER": (behind.normalizer, behind.tls.ca),
        "ORCHESTRATOR_TRANSCRIBER": (behind.transcriber, behind.tls.ca),
        "GATEWAY_ORCHESTRATOR": (mesh.gateway.orchestrator, mesh.gateway.tls.ca),
    }
    for variable, (addresses, authority) in targets.items():
        if authority:
            continue
        prefix = variable.partition("_")[0]
        for address in filter(None, map(str.strip, addresses.split(","))):
            try:
                if not is_loopback(split(address)[0]):
                    detail = f"{variable}: {address} is called without TLS, tokens included"
                    yield Finding("calls", "missing", detail, f"set {prefix}_TLS_CA")
            except InvalidRequestError as error:
                yield Finding("calls", "missing", f"{variable}: {error}")


def _permissions(mesh: MeshSettings) -> Problems:
    for name, settings in mesh.services.items():
        if settings.insecure_listen:
            variable = f"{name.upper()}_INSECURE_LISTEN"
            yield Finding("insecure", "missing", f"{variable} is set", f"unset {variable}")


def _open_orchestrator(mesh: MeshSettings) -> Problems:
    settings = mesh.orchestrator
    if not settings.login:
        remedy = "set ORCHESTRATOR_LOGIN=true and ORCHESTRATOR_TOKEN_FILE"
        detail = "who reaches the orchestrator or the gateway may do everything"
        yield Finding("login", "missing", detail, remedy)
    elif settings.token_file and settings.token_file not in mesh.made_at_start:
        detail = f"the admin token in {settings.token_file} never ends"
        yield Finding("login", "warning", detail, f"{AGAIN}; then unset ORCHESTRATOR_TOKEN_FILE")


def _provider_in_words(mesh: MeshSettings) -> str:
    issuer = mesh.orchestrator.oidc_issuer
    return f"people log in by {issuer}" if issuer else "people log in with tokens alone"


def _provider(mesh: MeshSettings) -> Problems:
    """A login by a provider that works for the public page and is for the right persons."""
    settings = mesh.orchestrator
    if not settings.oidc_issuer:
        return
    wrong = [Finding("provider", "missing", fault) for fault in faults(settings)]
    yield from wrong
    if wrong:
        return
    for name, url in (
        ("ORCHESTRATOR_OIDC_ISSUER", settings.oidc_issuer),
        ("ORCHESTRATOR_OIDC_REDIRECT", settings.oidc_redirect),
    ):
        if url.startswith("http://"):
            detail = f"{name}={url}: codes and sessions travel in plain text"
            yield Finding("provider", "missing", detail, "use its https address")
    host = _host_of(settings.oidc_redirect)
    hosts = _listed(mesh.gateway.hosts.lower())
    if host and ANY_HOST not in hosts and host not in hosts:
        detail = f"the provider sends browsers to {host}, which the gateway does not answer to"
        yield Finding("provider", "missing", detail, f"add {host} to GATEWAY_HOSTS")
    if not settings.oidc_client_secret_file:
        detail = "the provider does not know this mesh from others: PKCE alone protects codes"
        remedy = "register a confidential client; set ORCHESTRATOR_OIDC_CLIENT_SECRET_FILE"
        yield Finding("provider", "warning", detail, remedy)
    if role := role_table(settings.oidc_roles).get(PEOPLE):
        detail = f"everyone the provider knows is {role.name.lower()} here"
        yield Finding("provider", "warning", detail, "name groups in ORCHESTRATOR_OIDC_ROLES")


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _open_stages(mesh: MeshSettings) -> Problems:
    sent = mesh.orchestrator.stages_token_file
    for name, settings in mesh.stages.items():
        variable = f"{name.upper()}_TOKEN_FILE"
        if not (settings.token_file or settings.tls.names):
            detail = f"the {name} serves everyone who reaches its port"
            remedy = f"set {variable}, or {name.upper()}_TLS_PEERS=orchestrator"
            yield Finding("stages", "missing", detail, remedy)
        elif settings.token_file and not _same_token(sent, settings.token_file):
            detail = f"the {name} would refuse the orchestrator: it sends another token, or none"
            remedy = f"set ORCHESTRATOR_STAGES_TOKEN_FILE to the file of {variable}"
            yield Finding("stages", "missing", detail, remedy)


def _same_token(one: str, other: str) -> bool:
    """Whether both files hold one token; those that are unusable are a finding of their own."""
    if not one or one == other:
        return one == other
    try:
        return read_token(one) == read_token(other)
    except MeshError:
        return True


def _open_metrics(mesh: MeshSettings) -> Problems:
    for name, settings in mesh.services.items():
        listen = settings.metrics_listen
        if not listen or settings.metrics_token_file or settings.tls.names:
            continue
        verdict: Literal["warning", "missing"] = "missing"
        detail = f"everyone who reaches {listen} reads the metrics of the {name}"
        if _on_loopback(listen):
            verdict, detail = "warning", f"every user of this machine reads the metrics of {name}"
        remedy = f"set {name.upper()}_METRICS_TOKEN_FILE, or {name.upper()}_METRICS_LISTEN="
        yield Finding("metrics", verdict, detail, remedy)


def _reflection(mesh: MeshSettings) -> Problems:
    if mesh.orchestrator.reflection:
        detail = "the contract is described to strangers, too"
        yield Finding("reflection", "warning", detail, "set ORCHESTRATOR_REFLECTION=false")


def _hosts(mesh: MeshSettings) -> Problems:
    hosts = _listed(mesh.gateway.hosts)
    remedy = "set GATEWAY_HOSTS to the names the page has, such as captions.example"
    if not hosts:
        detail = "the gateway answers only to loopback names, or to any IP address"
        yield Finding("hosts", "missing", detail, remedy)
    elif ANY_HOST in hosts:
        detail = "the gateway answers to every name, so pages of others can use a name of theirs"
        yield Finding("hosts", "missing", detail, remedy)


def _proxies_in_words(mesh: MeshSettings) -> str:
    trusted = mesh.gateway.trusted_proxies
    return f"forwarded headers count from {trusted}" if trusted else "clients connect themselves"


def _proxies(mesh: MeshSettings) -> Problems:
    trusted = _listed(mesh.gateway.trusted_proxies)
    remedy = "set GATEWAY_TRUSTED_PROXIES to the address the proxy connects from"
    if set(EVERYONE) & set(trusted):
        detail = "every client may say which address it has"
        yield Finding("proxies", "missing", detail, remedy)
    elif not trusted and _on_loopback(mesh.gateway.listen):
        detail = "behind a proxy all clients count as one, and a page over https cannot log in"
        yield Finding("proxies", "missing", detail, remedy)


def _private_addresses(mesh: MeshSettings) -> Problems:
    for variable, allowed in (
        ("DOWNLOADER_ALLOW_PRIVATE_ADDRESSES", mesh.downloader.allow_private_addresses),
        ("DOWNLOADER_ALLOW_CALLER_PROXY", mesh.downloader.allow_caller_proxy),
        ("ORCHESTRATOR_WEBHOOK_PRIVATE", mesh.orchestrator.webhook_private),
    ):
        if allowed:
            detail = f"{variable}: callers reach this machine and its networks through it"
            yield Finding("addresses", "missing", detail, f"unset {variable}")


def _limits(mesh: MeshSettings) -> Problems:
    for variable, off, effect in (
        (
            "ORCHESTRATOR_MIN_FREE_BYTES",
            not mesh.orchestrator.min_free_bytes,
            "jobs are accepted until the disk is full",
        ),
        (
            "ORCHESTRATOR_FULL_PERCENT",
            mesh.orchestrator.full_percent >= 100,
            "jobs are accepted until the store is full",
        ),
        (
            "DOWNLOADER_MIN_RATE_BYTES",
            not mesh.downloader.min_rate_bytes,
            "slow sites may hold downloads for hours",
        ),
        (
            "GATEWAY_RATE_PER_SECOND",
            not mesh.gateway.rate_per_second,
            "one client may send any number of requests",
        ),
    ):
        if off:
            detail = f"{variable} turns a limit off: {effect}"
            yield Finding("limits", "missing", detail, f"unset {variable}")


def _broker_login(mesh: MeshSettings) -> Problems:
    file = mesh.orchestrator.nats_credentials
    if file in mesh.made_at_start:
        return
    if file:
        try:
            login(file)
        except MeshError as error:
            yield Finding("broker key", "missing", str(error))
    elif any(server.has_login for server in _brokers(mesh)):
        detail = "the login is in ORCHESTRATOR_NATS_URL, which other programs of the user can read"
        yield Finding("broker key", "warning", detail, "set ORCHESTRATOR_NATS_CREDENTIALS instead")
    else:
        detail = "the orchestrator connects to the broker without a login"
        remedy = "set ORCHESTRATOR_NATS_CREDENTIALS: `python -m mesh.credentials FOLDER` makes keys"
        yield Finding("broker key", "missing", detail, remedy)


def _broker_wire(mesh: MeshSettings) -> Problems:
    for server in _brokers(mesh):
        if not server.host:
            yield Finding("broker wire", "missing", "ORCHESTRATOR_NATS_URL is no address")
        elif not server.has_tls and not is_loopback(server.host):
            detail = f"{server.host} is called without TLS"
            remedy = "use tls:// in ORCHESTRATOR_NATS_URL, and TLS in the broker's configuration"
            yield Finding("broker wire", "missing", detail, remedy)


def _readable_files(mesh: MeshSettings) -> Problems:
    for variable, file in _secret_files(mesh):
        if not file or file in mesh.made_at_start:
            continue
        try:
            why = exposure_of(Path(file).stat())
        except OSError as error:
            why = str(error.strerror)
        if why:
            yield Finding("files", "missing", f"{variable}={file}: {why}")
        elif variable.endswith("TOKEN_FILE"):
            try:
                read_token(file)
            except MeshError as error:
                yield Finding("files", "missing", f"{variable}: {error}")


def _secret_files(mesh: MeshSettings) -> Iterator[tuple[str, str]]:
    for name, settings in mesh.services.items():
        yield f"{name.upper()}_TLS_KEY", settings.tls_key
        yield f"{name.upper()}_METRICS_TOKEN_FILE", settings.metrics_token_file
    for name, stage in mesh.stages.items():
        yield f"{name.upper()}_TOKEN_FILE", stage.token_file
    yield "ORCHESTRATOR_TOKEN_FILE", mesh.orchestrator.token_file
    yield "ORCHESTRATOR_STAGES_TOKEN_FILE", mesh.orchestrator.stages_token_file
    yield "ORCHESTRATOR_NATS_CREDENTIALS", mesh.orchestrator.nats_credentials
    yield "ORCHESTRATOR_OIDC_CLIENT_SECRET_FILE", mesh.orchestrator.oidc_client_secret_file
    yield "DOWNLOADER_COOKIES_FILE", mesh.downloader.cookies_file
    yield "YTCAPTION_TOKEN_FILE", os.environ.get("YTCAPTION_TOKEN_FILE", "")
    yield "YTCAPTION_TLS_KEY", os.environ.get("YTCAPTION_TLS_KEY", "")


async def check_broker(mesh: MeshSettings) -> list[Finding]:
    """Asks each broker whether it accepts connections without a login."""
    return [await _greeted(server.host, server.port) for server in _brokers(mesh) if server.host]


async def _greeted(host: str, port: int) -> Finding:
    named = partial(Finding, "broker")
    said = await greeting(host, port)
    if not said:
        return named("warning", f"not asked: {host}:{port} does not answer")
    if not said.get("auth_required"):
        remedy = "see docs/deployment.md, A NATS of your own"
        return named("missing", f"{host}:{port} accepts connections without a login", remedy)
    return named("ok", f"{host}:{port} refuses connections without a login")


async def check_tokens(address: str) -> list[Finding]:
    """Asks the running mesh whether a token of an admin never ends."""
    named = partial(Finding, "tokens")
    try:
        tls = tls_of_command()
        if await is_serving(address, tls) is None:
            return [named("warning", f"not asked: no mesh answers at {address}")]
        async with connected(address, tls, token_of_command(address, tls)) as server:
            endless = [one async for one in _endless_admins(server)]
    except (CommandError, MeshError) as error:
        return [named("warning", f"not asked: {error}", "set YTCAPTION_TOKEN_FILE of an admin")]
    return [
        named(
            "warning",
            f"the admin token {one.token_id} of {one.subject} never ends",
            f"{AGAIN}; then `ytcaption token revoke {one.token_id}`",
        )
        for one in endless
    ] or [named("ok", "every admin token ends")]


async def _endless_admins(server: Server) -> AsyncIterator[token_pb2.Token]:
    request = auth_pb.ListTokensRequest(page_size=PAGE_SIZE)
    while True:
        page = await call(server.auth.ListTokens, request)
        for token in page.tokens:
            ends = token.HasField("expire_time") or token.HasField("revoke_time")
            if token.role == token_pb2.ROLE_ADMIN and not ends:
                yield token
        request.page_token = page.next_page_token
        if not request.page_token:
            return


class _Broker(NamedTuple):
    """A broker as ORCHESTRATOR_NATS_URL names it; the login in it stays there."""

    host: str
    port: int
    has_tls: bool
    has_login: bool


def _brokers(mesh: MeshSettings) -> list[_Broker]:
    return [_broker(url) for url in _listed(mesh.orchestrator.nats_url)]


def _broker(url: str) -> _Broker:
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        host, port = parts.hostname or "", parts.port or PORT
    except ValueError:  # its message has a part of the URL
        return _Broker("", 0, has_tls=False, has_login=False)
    return _Broker(host, port, has_tls=parts.scheme == "tls", has_login=bool(parts.username))


def _on_loopback(listen: str) -> bool:
    try:
        return is_loopback(split(listen)[0])
    except InvalidRequestError:
        return False


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
