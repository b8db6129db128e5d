"""Hours of mixed load on a cluster: `python -m benchmarks.soak [--hours 1]`.

Null jobs, a few real ones, collections and webhooks run steadily on three brokers and two of each
service, while a process is killed now and then. Samples memory, open files and threads of every
process, the broker's storage and the work that waits. Exits with 1 if an invariant is not 0, or if
memory, files or threads grew.
"""

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from time import monotonic
from typing import TypeVar

import click
import grpc
from nats.errors import Error as NatsError

from benchmarks.chaos_caller import AGAIN_SECONDS, CALL_SECONDS, PASSING, stubbornly
from benchmarks.chaos_cluster import recordings
from benchmarks.cluster_brokers import Broker, Brokers, connection, running_brokers
from benchmarks.cluster_load import Load, connected, null_order
from benchmarks.cluster_mesh import MIB, Kind, Mesh, Service, running_mesh
from benchmarks.cluster_phases import Trial
from benchmarks.cluster_report import Result, Tally, described, to_json
from benchmarks.results import write_json
from benchmarks.soak_samples import (
    MIN_SECONDS,
    Sample,
    grown,
    longest_life,
    sample,
    stored_bytes,
    table,
    trend,
)
from cli.channel import open_channel
from mesh.addresses import free_ports
from mesh.tasks import stop
from tests.support.polling import until
from ytcaption.v1 import collection_pb2
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1.collection_service_pb2_grpc import CollectionServiceStub

Command = TypeVar("Command", bound=Callable[..., object])

RESULTS = Path(__file__).parent / "results"
SECRET = "whsec_" + b64encode(bytes(range(32))).decode()
MEMBERS = 5
DRAIN_SECONDS = 600.0
MAX_REAL = 2000
"""Recordings to make at most."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The options of the command."""

    hours: float
    seed: int
    pause: float
    real_pause: float
    collection_pause: float
    kill_pause: float
    sample_pause: float


@dataclass(slots=True)
class Soaked:
    """What was sampled and counted."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    storage: list[tuple[float, int, int]] = field(default_factory=list)
    """Seconds, bytes on the disks of all brokers, work items that wait."""
    results: list[Result] = field(default_factory=list)
    collections: int = 0
    unsettled: int = 0
    members_wrong: int = 0
    webhooks: Counter[str] = field(default_factory=Counter)
    """By job."""
    webhooks_missing: int = 0

    def faults(self) -> list[str]:
        """Why the run fails."""
        found = [f"{result.name}: {result.fault()}" for result in self.results if result.fault()]
        counted = {
            "collections not settled": self.unsettled,
            "collections with a wrong count of members": self.members_wrong,
            "jobs without their webhook": self.webhooks_missing,
        }
        found += [f"{number} {name}" for name, number in counted.items() if number]
        return found + [f"grew: {text}" for text in grown(self.services())]

    def services(self) -> dict[str, list[Sample]]:
        """The samples but for those of brokers, whose memory follows what they store."""
        return {name: each for name, each in self.samples.items() if "-" in name}


def say(text: str) -> None:
    """Prints progress."""
    sys.stderr.write(f"{text}\n")


async def soak(args: Arguments) -> Soaked:
    """Runs the load for the time, then waits until all has ended, and counts."""
    soaked = Soaked()
    rng = random.Random(args.seed)  # noqa: S311 # to be repeatable, not secret
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ytcaption-soak-")))
        seconds = args.hours * 3600
        real = min(MAX_REAL, int(seconds / args.real_pause) + 2)
        make_real = stack.enter_context(recordings(folder, real))
        hook = await stack.enter_async_context(_webhook_receiver(soaked.webhooks))
        brokers = await stack.enter_async_context(running_brokers(folder / "brokers", "direct"))
        more = {
            "STORAGE_BYTES": str(1024 * MIB),
            "WEBHOOK_SECRET": SECRET,
            "WEBHOOK_PRIVATE": "true",
            "WEBHOOK_BACKOFF": "1,2,5,10,20,40",
        }
        meshes: list[Mesh] = []
        for kind in (Kind("NULL", more=more), Kind("REAL", real=True, concurrency=1, more=more)):
            running_one = running_mesh(brokers.url, folder, say, kind)
            meshes.append(await stack.enter_async_context(running_one))
        loads = []
        for mesh in meshes:
            stubs = connected([one.address for one in mesh.of("orchestrator")])
            loads.append(Load(await stack.enter_async_context(stubs), f"soak-{args.seed}", hook))
        null, real_mesh = meshes
        trial = Trial(brokers, null, loads[0], rng, 1, say)
        running = [
            asyncio.create_task(loads[0].run(1, args.pause, null_order)),
            asyncio.create_task(loads[1].run(1, args.real_pause, make_real)),
        ]
        around = [
            asyncio.create_task(_sampling(soaked, args.sample_pause, brokers, meshes, folder)),
            asyncio.create_task(_killing(trial, real_mesh, args.kill_pause)),
        ]
        gathering = _collections(soaked, null, args, loads[0].enough)
        running.append(asyncio.create_task(gathering))
        try:
            await asyncio.wait(around, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
            await _end_killing(around[1], trial, meshes)
            for load in loads:
                load.enough.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    await asyncio.gather(*running)
        finally:
            await stop(*running, *around)
        for name, mesh, load in zip(("null", "real"), meshes, loads, strict=True):
            result = Result(name, "direct", trial.tally if name == "null" else Tally())
            # Members of collections are jobs, too.
            await _count(load, result, surplus=name == "real")
            result.exits = mesh.exits()
            soaked.results.append(result)
        soaked.webhooks_missing = await _missing_webhooks(soaked, loads)
    return soaked


async def _end_killing(killing: "asyncio.Task[None]", trial: Trial, meshes: list[Mesh]) -> None:
    await stop(killing)
    for node in trial.brokers.nodes:
        if not node.alive:
            await node.start()
    for mesh in meshes:
        for service in mesh.services:
            if service.process is None or service.process.returncode is not None:
                await service.start()
        await mesh.until_ready()
    await trial.brokers.until_whole()


async def _count(load: Load, result: Result, *, surplus: bool) -> None:
    result.noted = load.noted
    result.longest_wait = load.quorum.longest_wait(load.submitted_at or monotonic())
    result.unaccepted = sum(not order.job_id for order in load.orders)
    result.judged = await load.judged()
    if surplus and not result.unaccepted:
        result.surplus = await load.surplus()


async def _sampling(
    soaked: Soaked, pause: float, brokers: Brokers, meshes: list[Mesh], folder: Path
) -> None:
    began = monotonic()
    while True:
        at = monotonic() - began
        victims: list[Broker | Service] = [*brokers.nodes]
        for mesh in meshes:
            victims += mesh.services
        for victim in victims:
            process = victim.process
            found = await asyncio.to_thread(sample, process.pid, at) if process else None
            if found is not None:
                soaked.samples.setdefault(victim.name, []).append(found)
        stored = await asyncio.to_thread(stored_bytes, folder / "brokers")
        soaked.storage.append((at, stored, await _waiting(brokers)))
        await asyncio.sleep(pause)


async def _waiting(brokers: Brokers) -> int:
    """Messages of all work queues that were not delivered or not acknowledged yet."""
    streams = [info.config.name or "" for info in await brokers.streams()]
    waiting = 0
    async with connection(brokers) as client:
        if client is None:
            return 0
        for stream in streams:
            with suppress(NatsError, TimeoutError, OSError):
                for consumer in await client.jetstream(timeout=3).consumers_info(stream):
                    waiting += (consumer.num_pending or 0) + (consumer.num_ack_pending or 0)
    return waiting


async def _killing(trial: Trial, real: Mesh, pause: float) -> None:
    """Now and then one process; the first of each kind lives, so that its growth can be seen."""
    services = [one for mesh in (trial.mesh, real) for one in mesh.services[1::2]]
    while True:
        await asyncio.sleep(trial.rng.uniform(0.5, 1.5) * pause)
        victim = trial.rng.choice([trial.brokers.nodes[-1], *services])
        if victim is trial.brokers.nodes[-1]:
            await trial.kill_and_restart_broker(trial.brokers.nodes[-1])
        else:
            await trial.kill_and_restart(next(one for one in services if one is victim))


async def _collections(soaked: Soaked, mesh: Mesh, args: Arguments, enough: asyncio.Event) -> None:
    """One collection after the other, each watched until it is settled."""
    addresses = [one.address for one in mesh.of("orchestrator")]
    for number in count():
        if enough.is_set():
            return
        soaked.unsettled += 1
        soaked.collections += 1
        async with open_channel(addresses[number % 2]) as channel:
            stub = CollectionServiceStub(channel)
            settled = await _settled(stub, f"soak-{args.seed}-{number}", number)
        soaked.unsettled -= 1
        completed = sum(
            one.count
            for one in settled.counts
            if one.state == collection_pb2.MEMBER_STATE_COMPLETED
        )
        soaked.members_wrong += completed != MEMBERS
        with suppress(TimeoutError):
            async with asyncio.timeout(args.collection_pause):
                await enough.wait()


async def _settled(
    stub: CollectionServiceStub, word: str, number: int
) -> collection_pb2.Collection:
    members = [null_order(number * MEMBERS + more).url for more in range(MEMBERS)]
    members = [f"{url}&member={more}" for more, url in enumerate(members)]
    request = collection_pb.CreateCollectionRequest(addresses=members, request_id=word, force=True)

    async def create() -> str:
        made = await stub.CreateCollection(request, timeout=CALL_SECONDS)
        return made.collection.collection_id

    collection_id = await stubbornly(create)

    async def read() -> collection_pb2.Collection:
        question = collection_pb.GetCollectionRequest(collection_id=collection_id)
        return (await stub.GetCollection(question, timeout=CALL_SECONDS)).collection

    while not (found := await stubbornly(read)).settled:
        watch = stub.WatchCollection(
            collection_pb.WatchCollectionRequest(collection_id=collection_id)
        )
        try:
            async for _ in watch:
                pass  # to its end
        except grpc.aio.AioRpcError as error:
            if error.code() not in PASSING:
                raise
        finally:
            watch.cancel()
        await asyncio.sleep(AGAIN_SECONDS)
    return found


@asynccontextmanager
async def _webhook_receiver(received: Counter[str]) -> AsyncIterator[str]:
    """The address of an HTTP server that counts the ended jobs it is sent."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError, ValueError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = next(
                int(line.partition(":")[2])
                for line in head.splitlines()
                if line.startswith("content-length:")
            )
            body = json.loads(await reader.readexactly(length))
            received[body["data"]["job_id"]] += 1
            writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
            await writer.drain()
        writer.close()

    port = free_ports(1)[0]
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.close()


async def _missing_webhooks(soaked: Soaked, loads: list[Load]) -> int:
    """Jobs that ended and whose webhook did not come, also after a while."""
    ended = {order.job_id for load in loads for order in load.orders if order.ended}
    with suppress(TimeoutError):
        await until(lambda: ended <= soaked.webhooks.keys(), 60)
    return len(ended - soaked.webhooks.keys())


def report(soaked: Soaked) -> str:
    """Everything in words and tables."""
    storage = soaked.storage
    lines = [described(result) for result in soaked.results]
    lines += [
        f"collections: {soaked.collections}, not settled {soaked.unsettled}, "
        f"with a wrong count {soaked.members_wrong}",
        f"webhooks: {soaked.webhooks.total()} of {len(soaked.webhooks)} jobs, "
        f"missing {soaked.webhooks_missing}",
        table(soaked.samples),
    ]
    if storage:
        waiting = max(each for _, _, each in storage)
        lines.append(
            f"brokers' disks: {storage[0][1] / MIB:.0f} MiB at first, {storage[-1][1] / MIB:.0f} "
            f"MiB at last; work that waited: {waiting} at most, {storage[-1][2]} at last"
        )
    lines.append(_growth(soaked))
    return "\n".join(lines)


def _growth(soaked: Soaked) -> str:
    if growth := grown(soaked.services()):
        return f"grew: {'; '.join(growth)}"
    lines = [trend(longest_life(each), "memory") for each in soaked.samples.values()]
    if max((line.seconds for line in lines if line), default=0) < MIN_SECONDS:
        return "memory, files and threads of the services: too short a run to tell"
    return "memory, files and threads of the services: no growth"


def _positive(name: str, default: float, text: str) -> Callable[[Command], Command]:
    return click.option(
        name, type=click.FloatRange(min=0.1), default=default, show_default=True, help=text
    )


@click.command(help=__doc__)
@click.option("--hours", type=click.FloatRange(min=0.01), default=1.0, show_default=True)
@click.option("--seed", type=int, default=None, help="The same seed kills in the same order.")
@_positive("--pause", 1.0, "Seconds between two null jobs.")
@_positive("--real-pause", 60.0, "Seconds between two real jobs.")
@_positive("--collection-pause", 30.0, "Seconds between two collections.")
@_positive("--kill-pause", 180.0, "Seconds between two kills, on average.")
@_positive("--sample-pause", 15.0, "Seconds between two samples.")
def main(seed: int | None, **times: float) -> None:
    """Runs, prints what was seen and fails if an invariant is broken or something grew."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    seed = random.randrange(1_000_000) if seed is None else seed  # noqa: S311 # printed below
    say(f"seed {seed}")
    args = Arguments(seed=seed, **times)
    began = monotonic()
    soaked = asyncio.run(soak(args))
    click.echo(report(soaked))
    click.echo(
        f"{args.hours} h asked for, {(monotonic() - began) / 3600:.2f} h in all, seed {seed}"
    )
    measured = {
        "asked": asdict(args),
        "results": [to_json(result) for result in soaked.results],
        "samples": {name: list(map(asdict, each)) for name, each in soaked.samples.items()},
        "storage": soaked.storage,
        "collections": soaked.collections,
        "webhooks": soaked.webhooks.total(),
        "faults": soaked.faults(),
    }
    click.echo(f"wrote {write_json('soak', measured, RESULTS)}", err=True)
    if faults := soaked.faults():
        raise click.ClickException("; ".join(faults))
    click.echo("nothing lost, nothing twice, nothing missed")


if __name__ == "__main__":
    main()
