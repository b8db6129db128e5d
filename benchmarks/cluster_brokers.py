"""Three brokers that form one JetStream cluster, and every fault that can be forced on them."""

import asyncio
import os
import random
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Literal

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import api

from benchmarks.cluster_links import Way, forwarding
from mesh.addresses import free_ports
from mesh.broker import HOST, command
from tests.support.cluster import LOGIN, SIZE, Cluster, Node, secured
from tests.support.polling import until

Network = Literal["direct", "links", "namespaces"]

READY_SECONDS = 120
CLIENT_PORT, ROUTE_PORT = 4222, 6222
CONFIGURATION = """\
server_name: "n{number}"
listen: "{host}:{port}"
max_payload: 4MB
ping_interval: "20s"
write_deadline: "10s"
jetstream {{
  store_dir: "{store_dir}"
  sync_interval: always
}}
cluster {{
  name: "chaos"
  listen: "{route_host}:{route_port}"
  # Brokers and clients use the addresses they were configured with, and no others.
  advertise: "{route_host}:1"
  no_advertise: true
  routes: [{routes}]
}}
feature_flags {{
  js_ack_fc_v2: false
}}
{accounts}"""


@dataclass(slots=True)
class Broker(Node):
    """One broker, at an address of its own."""

    host: str = HOST
    wrapper: tuple[str, ...] = ()
    """What its command line begins with: a network namespace."""

    @property
    def url(self) -> str:  # noqa: D102 # of Node
        return f"nats://{LOGIN}@{self.host}:{self.port}"

    @property
    def alive(self) -> bool:
        """Whether it has a process."""
        return self.process is not None

    async def start(self) -> None:
        """Starts the broker; returns once it accepts connections."""
        with self.configuration.with_suffix(".log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.wrapper,
                *command(self.configuration),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        await until(self._answers, READY_SECONDS)

    async def stop(self) -> None:
        """Ends the broker as an operator would."""
        if self.process is not None:
            self.process.terminate()
            await self.process.wait()
            self.process = None

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(2):
                reader, writer = await asyncio.open_connection(self.host, self.port)
                try:
                    return (await reader.readline()).startswith(b"INFO ")
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False


class Brokers(Cluster):
    """The brokers, their network, and what JetStream says about itself."""

    nodes: list[Broker]  # type: ignore[assignment] # a list of their own kind

    async def streams(self) -> list[api.StreamInfo]:
        """All streams, as a broker with a quorum knows them; [] if none answers."""
        for node in filter(lambda each: each.alive, self.nodes):
            async with _jetstream(node) as client:
                if client is not None:
                    with suppress(NatsError, TimeoutError, OSError):
                        return await client.jetstream(timeout=3).streams_info()
        return []

    async def leader_of(self, stream: str) -> Broker:
        """The broker that leads a stream; waits until there is one."""
        found: list[Broker] = []

        async def known() -> bool:
            for info in await self.streams():
                if info.config.name == stream and info.cluster and info.cluster.leader:
                    found[:] = [one for one in self.nodes if one.name == info.cluster.leader]
            return bool(found) and found[0].alive

        await until(known, READY_SECONDS)
        return found[0]

    async def is_whole(self) -> bool:
        """Whether every broker runs and every stream has a leader and no replica that lags."""
        if not all(node.alive for node in self.nodes):
            return False
        streams = await self.streams()
        return bool(streams) and all(map(_is_whole, streams))

    async def until_whole(self) -> None:
        """Returns once nothing is missing."""
        await until(self.is_whole, READY_SECONDS)

    def impair(self, numbers: Sequence[int], *, delay: float, loss: float) -> None:
        """Whatever these brokers send to their peers is late, or lost."""
        raise NotImplementedError

    def mute(self, number: int) -> None:
        """A broker hears its peers, and they do not hear it."""
        self.impair([number], delay=0, loss=1)

    def isolate_wholly(self, number: int) -> None:
        """Cuts a broker off from its peers and, where the network can, from its clients."""
        self.isolate(number)


def _is_whole(info: api.StreamInfo) -> bool:
    cluster = info.cluster
    if cluster is None or not cluster.leader:
        return False
    replicas = cluster.replicas or []
    return all(peer.current and not peer.offline for peer in replicas)


@asynccontextmanager
async def connection(brokers: Brokers) -> AsyncIterator[Client | None]:
    """A connection to one of the brokers; None if none takes it."""
    for node in brokers.nodes:
        async with _jetstream(node) as client:
            if client is not None:
                yield client
                return
    yield None


@asynccontextmanager
async def _jetstream(node: Broker) -> AsyncIterator[Client | None]:
    client = Client()
    try:
        await client.connect(node.url, allow_reconnect=False, connect_timeout=2)
    except (NatsError, OSError, TimeoutError):
        yield None
        return
    try:
        yield client
    finally:
        with suppress(NatsError, OSError):
            await client.close()


@dataclass(slots=True)
class LinkedBrokers(Brokers):
    """Brokers on loopback that reach each other through TCP links."""

    ways: dict[tuple[int, int], Way] = field(default_factory=dict)
    """By the broker that sends and the one that receives."""

    def isolate(self, number: int) -> None:  # noqa: D102 # of Cluster
        for pair, way in self.ways.items():
            if number in pair:
                way.hold()

    def heal(self) -> None:  # noqa: D102
        for way in self.ways.values():
            way.heal()

    def impair(self, numbers: Sequence[int], *, delay: float, loss: float) -> None:  # noqa: D102
        for (origin, _), way in self.ways.items():
            if origin in numbers:
                way.delay, way.loss = delay, min(loss, 0.95)
                if loss >= 1:
                    way.hold()


@dataclass(slots=True)
class NamespacedBrokers(Brokers):
    """Brokers in network namespaces: one bridge for their peers, one for their clients."""

    tag: str = ""

    def isolate(self, number: int) -> None:  # noqa: D102
        _ip("link", "set", _port(self.tag, "p", number), "nomaster")

    def isolate_wholly(self, number: int) -> None:  # noqa: D102
        self.isolate(number)
        _ip("link", "set", _port(self.tag, "c", number), "nomaster")

    def heal(self) -> None:  # noqa: D102
        for number in range(SIZE):
            for side in "pc":
                _ip("link", "set", _port(self.tag, side, number), "master", f"y{self.tag}{side}")
                if has_netem():
                    inside = ("netns", "exec", _namespace(self.tag, number), "tc", "qdisc")
                    subprocess.run(  # there may be none
                        ["ip", *inside, "del", "dev", f"{side}0", "root"],  # noqa: S607
                        capture_output=True,
                    )

    def impair(self, numbers: Sequence[int], *, delay: float, loss: float) -> None:  # noqa: D102
        for number in numbers:
            inside = ("netns", "exec", _namespace(self.tag, number), "tc", "qdisc", "replace")
            fault = ("netem", "delay", f"{delay * 1000:.0f}ms", "loss", f"{loss:.0%}")
            _ip(*inside, "dev", "p0", "root", *fault)


def _namespace(tag: str, number: int) -> str:
    return f"y{tag}n{number}"


def _port(tag: str, side: str, number: int) -> str:
    return f"y{tag}{side}{number}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)  # noqa: S607


def has_namespaces() -> bool:
    """Whether this process may make network namespaces and bridges."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    tag = secrets.token_hex(2)
    try:
        _ip("netns", "add", _namespace(tag, 0))
        _ip("link", "add", f"y{tag}b", "type", "bridge")
    except subprocess.CalledProcessError:
        return False
    finally:
        for undo in (("netns", "del", _namespace(tag, 0)), ("link", "del", f"y{tag}b")):
            with suppress(subprocess.CalledProcessError):
                _ip(*undo)
    return True


def has_netem() -> bool:
    """Whether the kernel can delay and lose packets."""
    if not has_namespaces() or shutil.which("tc") is None:
        return False
    space = f"y{secrets.token_hex(2)}t"
    _ip("netns", "add", space)
    try:
        inside = ("netns", "exec", space, "tc", "qdisc", "replace", "dev", "lo", "root")
        _ip(*inside, "netem", "delay", "1ms")
    except subprocess.CalledProcessError:
        return False
    finally:
        _ip("netns", "del", space)
    return True


def network_for(need: Literal["none", "cut", "impair"], wanted: str = "auto") -> Network:
    """The network a phase gets: the kernel's where it can do what is needed, else TCP links."""
    if need == "none":
        return "direct"
    if wanted != "links" and (has_netem() if need == "impair" else has_namespaces()):
        return "namespaces"
    return "links"


@asynccontextmanager
async def running_brokers(folder: Path, network: Network, seed: int = 0) -> AsyncIterator[Brokers]:
    """Runs three brokers until the block ends."""
    async with AsyncExitStack() as stack:
        if network == "namespaces":
            brokers: Brokers = _namespaced(folder, stack)
        else:
            brokers = await _on_loopback(folder, stack, linked=network == "links", seed=seed)
        for node in brokers.nodes:
            stack.push_async_callback(node.kill)
        await asyncio.gather(*(node.start() for node in brokers.nodes))
        await until(lambda: _answer(brokers), READY_SECONDS)
        yield brokers


async def _answer(brokers: Brokers) -> bool:
    """Whether JetStream answers on every broker."""
    for node in brokers.nodes:
        async with _jetstream(node) as client:
            if client is None:
                return False
            try:
                await client.jetstream(timeout=1).account_info()
            except (NatsError, OSError, TimeoutError):
                return False
    return True


async def _on_loopback(
    folder: Path, stack: AsyncExitStack, *, linked: bool, seed: int
) -> LinkedBrokers:
    pairs = list(permutations(range(SIZE), 2))
    ports = free_ports(2 * SIZE + len(pairs))
    clients, inner = ports[:SIZE], ports[SIZE : 2 * SIZE]
    outer = dict(zip(pairs, ports[2 * SIZE :], strict=True))
    rng = random.Random(seed)  # noqa: S311 # to be repeatable, not secret
    brokers = LinkedBrokers([])
    if linked:
        brokers.ways = {pair: Way(rng) for pair in pairs}
        for (origin, target), port in outer.items():
            there, back = brokers.ways[origin, target], brokers.ways[target, origin]
            await stack.enter_async_context(forwarding(port, inner[target], there, back))
    for number in range(SIZE):
        peers = [
            outer[number, other] if linked else inner[other]
            for other in range(SIZE)
            if other != number
        ]
        routes = [f"{HOST}:{port}" for port in peers]
        path = _configured(
            folder, number, (HOST, clients[number]), (HOST, inner[number]), routes=routes
        )
        brokers.nodes.append(Broker(number, clients[number], path))
    return brokers


def _namespaced(folder: Path, stack: AsyncExitStack) -> NamespacedBrokers:
    tag = secrets.token_hex(2)
    # Two networks out of the range for benchmarks (RFC 2544), so that runs do not meet.
    nets = {"c": f"198.18.{secrets.randbelow(256)}", "p": f"198.19.{secrets.randbelow(256)}"}
    for side, net in nets.items():
        bridge = f"y{tag}{side}"
        _ip("link", "add", bridge, "type", "bridge")
        stack.callback(_ip, "link", "del", bridge)
        _ip("addr", "add", f"{net}.254/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
    brokers = NamespacedBrokers([], tag=tag)
    for number in range(SIZE):
        space = _namespace(tag, number)
        _ip("netns", "add", space)
        stack.callback(_ip, "netns", "del", space)
        _ip("-n", space, "link", "set", "lo", "up")
        for side, net in nets.items():
            port = _port(tag, side, number)
            _ip("link", "add", port, "type", "veth", "peer", "name", f"{side}0", "netns", space)
            _ip("link", "set", port, "master", f"y{tag}{side}", "up")
            _ip("-n", space, "addr", "add", f"{net}.{number + 1}/24", "dev", f"{side}0")
            _ip("-n", space, "link", "set", f"{side}0", "up")
        hosts = {side: f"{net}.{number + 1}" for side, net in nets.items()}
        routes = [
            f"{nets['p']}.{other + 1}:{ROUTE_PORT}" for other in range(SIZE) if other != number
        ]
        path = _configured(
            folder, number, (hosts["c"], CLIENT_PORT), (hosts["p"], ROUTE_PORT), routes=routes
        )
        wrapper = ("ip", "netns", "exec", space)
        brokers.nodes.append(Broker(number, CLIENT_PORT, path, host=hosts["c"], wrapper=wrapper))
    return brokers


def _configured(
    folder: Path,
    number: int,
    listen: tuple[str, int],
    route: tuple[str, int],
    *,
    routes: list[str],
) -> Path:
    path = folder / f"n{number}" / "nats.conf"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = CONFIGURATION.format(
        number=number,
        host=listen[0],
        port=listen[1],
        store_dir=path.parent,
        accounts=secured(folder),
        route_host=route[0],
        route_port=route[1],
        routes=", ".join(f'"nats://{address}"' for address in routes),
    )
    path.write_text(text, encoding="utf-8")
    return path
