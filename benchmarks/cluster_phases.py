"""The phases of the cluster chaos: what is done to brokers, network and processes in each."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time
from typing import Literal

from benchmarks.cluster_brokers import Broker, Brokers
from benchmarks.cluster_clocks import HOUR_SECONDS
from benchmarks.cluster_disks import filled
from benchmarks.cluster_load import Load
from benchmarks.cluster_memory import run_out_of_memory
from benchmarks.cluster_mesh import ACK_WAIT_SECONDS, Mesh, Say, Service
from benchmarks.cluster_report import Tally

UNAIDED_SECONDS = 40.0
"""How long brokers have to go on by themselves once their disk has room again."""


@dataclass(slots=True)
class Trial:
    """Everything a phase acts on, and the count of what it did."""

    brokers: Brokers
    mesh: Mesh
    load: Load
    rng: random.Random
    scale: float
    say: Say
    disks: dict[str, Path] = field(default_factory=dict)
    """Small file systems: of each broker by its name, and "work" of the orchestrators."""
    tally: Tally = field(default_factory=Tally)

    def victims(self) -> list[Broker | Service]:
        """Every process."""
        return [*self.brokers.nodes, *self.mesh.services]

    async def pause(self, least: float, most: float) -> None:
        """Waits for a seeded time, scaled."""
        await asyncio.sleep(self.rng.uniform(least, most) * self.scale)

    async def kill_broker(self, node: Broker) -> None:
        """SIGKILL for a broker."""
        self.tally.broker_kills += 1
        self.say(f"kill {node.name}")
        await node.kill()

    async def kill_and_restart_broker(self, node: Broker) -> None:
        """SIGKILL; back after a while; returns when the cluster is whole again."""
        await self.kill_broker(node)
        await self.pause(1, 3)
        await node.start()
        await self.brokers.until_whole()

    async def kill_and_restart(self, service: Service) -> None:
        """SIGKILL for a service; back after a while."""
        self.tally.kills[service.kind] += 1
        self.say(f"kill {service.name}")
        await service.kill()
        await self.pause(0.5, 2)
        await service.start()
        await service.until_ready()

    async def cut_off(self, number: int, *, wholly: bool) -> None:
        """A partition: one broker without its peers, or also without its clients."""
        self.tally.partitions += 1
        self.say(f"cut off n{number}{' wholly' if wholly else ''}")
        (self.brokers.isolate_wholly if wholly else self.brokers.isolate)(number)
        await self.pause(8, 15)
        self.brokers.heal()
        await self.brokers.until_whole()


async def quiet(_: Trial) -> None:
    """No fault."""


async def leaders(trial: Trial) -> None:
    """SIGKILL for the leader of every stream, one after the other."""
    streams = sorted(info.config.name or "" for info in await trial.brokers.streams())
    for stream in trial.rng.sample(streams, len(streams)):
        node = await trial.brokers.leader_of(stream)
        trial.say(f"{node.name} leads {stream}")
        await trial.kill_and_restart_broker(node)


async def kinds(trial: Trial) -> None:
    """SIGKILL for every process, one after the other."""
    victims = trial.victims()
    for victim in trial.rng.sample(victims, len(victims)):
        if isinstance(victim, Broker):
            await trial.kill_and_restart_broker(victim)
        else:
            await trial.kill_and_restart(victim)


async def quorum(trial: Trial) -> None:
    """Two of three brokers are gone for 20 to 40 seconds, then for 90."""
    for least, most in ((20, 40), (90, 90)):
        gone = trial.rng.sample(trial.brokers.nodes, 2)
        await asyncio.gather(*map(trial.kill_broker, gone))
        began = monotonic()
        await trial.pause(least, most)
        await asyncio.gather(*(node.start() for node in gone))
        trial.load.quorum.lost.append((began, monotonic()))
        await trial.brokers.until_whole()
        await trial.pause(5, 10)


async def partition(trial: Trial) -> None:
    """Each broker is cut off from its peers, and each from its clients, too."""
    cuts = [(number, wholly) for number in range(3) for wholly in (False, True)]
    for number, wholly in trial.rng.sample(cuts, len(cuts)):
        await trial.cut_off(number, wholly=wholly)


async def asymmetric(trial: Trial) -> None:
    """Each broker in turn loses 30 % of what it sends to its peers, then all of it."""
    for number in trial.rng.sample(range(3), 3):
        for loss in (0.3, 1.0):
            trial.tally.impairments += 1
            trial.say(f"n{number} loses {loss:.0%} of what it sends")
            trial.brokers.impair([number], delay=0, loss=loss)
            await trial.pause(8, 12)
            trial.brokers.heal()
            await trial.brokers.until_whole()


async def slow(trial: Trial) -> None:
    """All that brokers send each other takes 50 ms, and 1 % of the packets are lost."""
    trial.tally.impairments += 1
    trial.brokers.impair(range(3), delay=0.05, loss=0.01)
    await trial.pause(60, 60)
    trial.brokers.heal()
    await trial.brokers.until_whole()


async def freeze(trial: Trial) -> None:
    """Every process stands still for longer than the ack wait, one after the other."""
    victims = trial.victims()
    for victim in trial.rng.sample(victims, len(victims)):
        trial.tally.freezes += 1
        trial.say(f"freeze {victim.name}")
        victim.freeze()
        await asyncio.sleep(ACK_WAIT_SECONDS * trial.rng.uniform(1.2, 2))
        victim.thaw()
        if isinstance(victim, Broker):
            await trial.brokers.until_whole()
        else:
            await victim.until_ready()


async def rolling(trial: Trial) -> None:
    """An orderly restart of everything, one process after the other."""
    for node in trial.brokers.nodes:
        trial.tally.restarts += 1
        trial.say(f"restart {node.name}")
        await node.stop()
        await node.start()
        await trial.brokers.until_whole()
    for service in trial.mesh.services:
        await _restart(trial, service)


async def upgrade(trial: Trial) -> None:
    """A mesh of the last released version becomes this one, one process after the other."""
    for service in (*trial.mesh.services[::2], *trial.mesh.services[1::2]):
        await trial.pause(2, 4)  # both versions side by side
        await _restart(trial, service, upgrade=True)
    await trial.pause(20, 20)


async def disk(trial: Trial) -> None:
    """The disk of the work folders is full, then that of one broker, then those of all three."""
    trial.load.noted.expected = frozenset({"STORAGE_FULL"})
    names = [node.name for node in trial.brokers.nodes]
    for full in (["work"], [trial.rng.choice(names)], names):
        await trial.pause(5, 5)
        trial.tally.full_disks += len(full)
        trial.say(f"full: {', '.join(full)}")
        began = monotonic()
        with filled(*(trial.disks[name] for name in full)):
            await trial.pause(20, 20)
        if full == ["work"]:  # nothing is accepted while it is full
            trial.load.quorum.lost.append((began, monotonic()))
        trial.say("room again")
        await _recovered(trial, full)
        if full == names:
            trial.load.quorum.lost.append((began, monotonic()))


async def clock(trial: Trial) -> None:
    """Clocks jump an hour ahead, then an hour behind: of one orchestrator, then of all services."""
    for services in ([trial.rng.choice(trial.mesh.of("orchestrator"))], trial.mesh.services):
        for seconds in (HOUR_SECONDS, -HOUR_SECONDS, 0):
            trial.tally.clock_jumps += len(services)
            trial.say(f"{', '.join(one.name for one in services)}: clock {seconds:+} s")
            for service in services:
                service.set_clock(seconds)
            await trial.pause(10, 15)


async def memory(trial: Trial) -> None:
    """Each broker runs out of memory, one after the other; then all three at one moment."""
    for node in trial.rng.sample(trial.brokers.nodes, len(trial.brokers.nodes)):
        await trial.pause(3, 5)
        await _out_of_memory(trial, node)
        await trial.pause(1, 3)
        await node.start()
        await trial.brokers.until_whole()
    await trial.pause(3, 5)
    began = monotonic()
    await asyncio.gather(*(_out_of_memory(trial, node) for node in trial.brokers.nodes))
    await trial.pause(10, 10)
    await asyncio.gather(*(node.start() for node in trial.brokers.nodes))
    trial.load.quorum.lost.append((began, monotonic()))
    await trial.brokers.until_whole()


async def _out_of_memory(trial: Trial, node: Broker) -> None:
    trial.tally.out_of_memory += 1
    trial.say(f"{node.name} runs out of memory")
    await run_out_of_memory(node)


async def _recovered(trial: Trial, full: list[str]) -> None:
    """Returns when all is well; a broker that stays as it was is restarted, as documented."""
    with suppress(TimeoutError):
        async with asyncio.timeout(UNAIDED_SECONDS):
            await trial.load.accepts_another()
            await trial.brokers.until_whole()
            return
    for node in trial.brokers.nodes:
        if node.name in full:
            trial.tally.repairs += 1
            trial.say(f"{node.name} does not go on by itself: restart")
            await node.kill()
            await node.start()
    await trial.load.accepts_another()
    await trial.brokers.until_whole()


async def _restart(trial: Trial, service: Service, *, upgrade: bool = False) -> None:
    trial.tally.restarts += 1
    trial.say(f"restart {service.name}")
    await service.stop()
    if upgrade:
        service.code = None
        if not any(one.code for one in trial.mesh.of("orchestrator")):
            trial.load.old_until = trial.load.old_until or time()
    await service.start()
    await service.until_ready()


@dataclass(frozen=True, slots=True)
class Phase:
    """One part of the chaos."""

    run: Callable[[Trial], Awaitable[None]]
    need: Literal["none", "cut", "impair"] = "none"
    """What the network must be able to do."""
    share: float = 0.1
    """Of the jobs asked for, the least this phase has; it has more if it lasts longer."""
    pause: float = 0.3
    """Seconds between two jobs."""
    real: bool = False
    old: bool = False
    """Begins with the last released version."""
    small_disks: bool = False
    """Brokers and work folders have small file systems of their own."""
    clocks: bool = False
    """Services have clocks of their own."""


PHASES = {
    "quiet": Phase(quiet, share=1, pause=0.02),
    "real": Phase(quiet, real=True),
    "leaders": Phase(leaders),
    "kinds": Phase(kinds),
    "quorum": Phase(quorum),
    "partition": Phase(partition, need="cut"),
    "asymmetric": Phase(asymmetric, need="impair"),
    "slow": Phase(slow, need="impair"),
    "freeze": Phase(freeze),
    "rolling": Phase(rolling),
    "upgrade": Phase(upgrade, old=True),
    "disk": Phase(disk, small_disks=True),
    "clock": Phase(clock, clocks=True),
    "memory": Phase(memory),
}
