"""Three brokers that form one JetStream cluster on loopback, and the faults tests force on them."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any

import psutil
from nats.aio.client import Client
from nats.errors import Error as NatsError

from mesh.addresses import free_ports
from mesh.broker import CREDENTIALS, HOST, accounts, answers, command
from mesh.credentials import PUBLIC_KEYS, make_keys
from mesh.tasks import stop
from tests.support.polling import until

SIZE = 3
READY_SECONDS = 60
CONFIGURATION = """\
server_name: "n{number}"
listen: "{host}:{port}"
max_payload: 4MB
jetstream {{
  store_dir: "{store_dir}"
}}
cluster {{
  name: "tests"
  listen: "{host}:{cluster_port}"
  # Brokers reach each other only through the links below.
  advertise: "{host}:1"
  no_advertise: true
  routes: [{routes}]
}}
feature_flags {{
  js_ack_fc_v2: false
}}
{accounts}"""
LOGIN = "orchestrator:tests"
"""In the URL, beside the key: releases that know no credentials file use it, too."""


def secured(folder: Path) -> str:
    """Makes keys there; the accounts of brokers that are configured in folders beside it."""
    make_keys(folder / CREDENTIALS)
    user, _, password = LOGIN.partition(":")
    own = "{nkey: $ORCHESTRATOR_KEY}"
    users = f"{own}, {{user: {user}, password: {password}}}"
    return f'include "../{CREDENTIALS}/{PUBLIC_KEYS}"\n{accounts().replace(own, users)}'


class Link:
    """The route between two brokers; a held link delays every byte, as a network fault does."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._serving: set[asyncio.Task[None]] = set()

    def hold(self) -> None:
        """Passes nothing on until released."""
        self._open.clear()

    def release(self) -> None:
        """Passes on what was held, in order."""
        self._open.set()

    @asynccontextmanager
    async def forwarding(self, port: int, target: int) -> AsyncIterator[None]:
        """Forwards connections from one port to another inside this block."""

        def accept(*streams: Any) -> None:
            task = asyncio.create_task(self._serve(target, *streams))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

        server = await asyncio.start_server(accept, HOST, port)
        try:
            yield
        finally:
            server.close()
            await stop(*self._serving)

    async def _serve(
        self, target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        async with AsyncExitStack() as stack:
            stack.enter_context(suppress(OSError))
            stack.callback(writer.close)
            far_reader, far_writer = await asyncio.open_connection(HOST, target)
            stack.callback(far_writer.close)
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            await self._open.wait()
            writer.write(data)
            await writer.drain()
        writer.close()


@dataclass(slots=True)
class Node:
    """One broker of the cluster."""

    number: int
    port: int
    configuration: Path
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """The URL clients connect to."""
        return f"nats://{LOGIN}@{HOST}:{self.port}"

    @property
    def name(self) -> str:
        """The name under which the cluster knows it."""
        return f"n{self.number}"

    async def start(self) -> None:
        """Starts the broker; returns once it accepts connections."""
        with self.configuration.with_suffix(".log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command(self.configuration), stdout=log, stderr=log, start_new_session=True
            )
        await until(lambda: answers(self.port), READY_SECONDS)

    async def kill(self) -> None:
        """Kills the broker; returns when it is gone."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
            self.process = None

    def freeze(self) -> None:
        """Stops the broker in its tracks; its connections stay open.

        Returns when all of its threads have stopped: one of them takes the signal, and on a busy
        machine the others go on until that one has run.
        """
        self._signal(signal.SIGSTOP)
        assert self.process is not None
        threads = [psutil.Process(one.id) for one in psutil.Process(self.process.pid).threads()]
        while any(thread.status() != psutil.STATUS_STOPPED for thread in threads):
            time.sleep(0.01)

    def thaw(self) -> None:
        """Lets a frozen broker go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)


@dataclass(slots=True)
class Cluster:
    """The brokers and the links between them."""

    nodes: list[Node]
    links: dict[frozenset[int], Link] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Every broker, for clients that may connect to any."""
        return ",".join(node.url for node in self.nodes)

    def isolate(self, number: int) -> None:
        """Cuts one broker off from its peers; its clients stay connected."""
        for pair, link in self.links.items():
            if number in pair:
                link.hold()

    def heal(self) -> None:
        """Ends every cut."""
        for link in self.links.values():
            link.release()


@asynccontextmanager
async def running_cluster(folder: Path) -> AsyncIterator[Cluster]:
    """Runs three brokers until the block ends."""
    ways = list(permutations(range(SIZE), 2))
    ports = free_ports(2 * SIZE + len(ways))
    clients, inner = ports[:SIZE], ports[SIZE : 2 * SIZE]
    outer = dict(zip(ways, ports[2 * SIZE :], strict=True))
    cluster = Cluster([])
    async with AsyncExitStack() as stack:
        for (origin, target), port in outer.items():
            link = cluster.links.setdefault(frozenset((origin, target)), Link())
            await stack.enter_async_context(link.forwarding(port, inner[target]))
        for number in range(SIZE):
            path = folder / f"n{number}" / "nats.conf"
            path.parent.mkdir(parents=True)
            near = [port for (origin, _), port in outer.items() if origin == number]
            text = CONFIGURATION.format(
                number=number,
                host=HOST,
                port=clients[number],
                store_dir=path.parent,
                accounts=secured(folder),
                cluster_port=inner[number],
                routes=", ".join(f'"nats://{HOST}:{port}"' for port in near),
            )
            path.write_text(text, encoding="utf-8")
            cluster.nodes.append(Node(number, clients[number], path))
            stack.push_async_callback(cluster.nodes[-1].kill)
        await asyncio.gather(*(node.start() for node in cluster.nodes))
        await until(lambda: _has_leader(cluster), READY_SECONDS)
        yield cluster


async def _has_leader(cluster: Cluster) -> bool:
    """Whether JetStream answers on every broker."""
    for node in cluster.nodes:
        client = Client()
        try:
            await client.connect(node.url, allow_reconnect=False)
            await client.jetstream(timeout=1).account_info()
        except (NatsError, OSError, TimeoutError):
            return False
        finally:
            await client.close()
    return True
