"""Callers and watchers of several orchestrators: they never give up, and note what they see."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count, pairwise
from time import monotonic

import grpc

from benchmarks.chaos_caller import AGAIN_SECONDS, PASSING, Caller, Seen
from benchmarks.chaos_report import Outcome, judge
from benchmarks.load_stages import Plan
from cli.channel import OPTIONS
from mesh.status import reason_of
from mesh.tasks import map_concurrently, stop
from mesh.watching import TERMINAL
from tests.support.polling import until
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1.pipeline_service_pb2_grpc import PipelineServiceStub

CALL_SECONDS = 12.0
ACCEPT_SECONDS = 120.0
LOOK_SECONDS = 6.0
WATCH_SECONDS, WATCH_TRIES = 20.0, 3
CONNECTIONS = 4
"""To each orchestrator: one connection of HTTP/2 carries a hundred streams or so."""
MAX_UNACCEPTED = 16
JUDGED_AT_ONCE = 8
REFUSED = frozenset({"STORAGE_UNAVAILABLE", "STORAGE_FULL"})
GONE = frozenset({grpc.StatusCode.NOT_FOUND})


@dataclass(slots=True)
class Order:
    """One job of the run and its progress."""

    number: int
    url: str
    segments: int | None = None
    """How many it must have; None if that is not known."""
    job_id: str = ""
    seen: Seen = field(default_factory=Seen)
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of an accepted job, as far as a cluster adds to it."""

    outcome: Outcome
    ended: bool
    known: bool
    disordered: int
    """Events that came after a later one."""
    transcript_differs: bool
    """The stored transcript has other segments than the event log."""
    endless: bool = False
    """The job has ended, and a watch of it does not."""


@dataclass(slots=True)
class Quorum:
    """When a majority of the brokers could agree, and when jobs were accepted."""

    began: float = field(default_factory=monotonic)
    accepts: list[float] = field(default_factory=list)
    lost: list[tuple[float, float]] = field(default_factory=list)
    """From and to."""

    def longest_wait(self, until: float, events: Sequence[float] | None = None) -> float:
        """The longest time without one of these events, or an accept, while a quorum lived."""
        times = [at for at in (self.accepts if events is None else events) if at <= until]
        marks = sorted({self.began, until, *times, *(at for pair in self.lost for at in pair)})
        pairs = pairwise(marks)
        return max(
            (end - begin for begin, end in pairs if not self._was_lost(begin, end)), default=0
        )

    def _was_lost(self, begin: float, end: float) -> bool:
        return any(first <= begin and end <= last for first, last in self.lost)


@dataclass(slots=True)
class Noted:
    """What callers met."""

    codes: Counter[str] = field(default_factory=Counter)
    """Every error, by code and reason."""
    bad: Counter[str] = field(default_factory=Counter)
    """Errors that no fault of a broker or a process explains, by code and details."""
    not_found: int = 0
    """Accepted jobs an orchestrator said it does not know."""
    not_found_by_old: int = 0
    """The same of an orchestrator of an earlier version, which cannot be mended any more."""
    differ_by_old: int = 0
    """Transcripts that differ, of jobs that ended while such an orchestrator ran."""
    expected: frozenset[str] = frozenset()
    """Reasons that the phase provokes besides those of a broker or a process that is away."""
    refusals: list[float] = field(default_factory=list)
    """Seconds it took to refuse a job for want of storage."""

    def error(self, error: grpc.aio.AioRpcError) -> None:
        """Counts an error."""
        code, reason = error.code(), reason_of(error)
        self.codes[f"{code.name} {reason}".strip()] += 1
        if code not in PASSING and code not in GONE and reason not in self.expected:
            self.bad[f"{code.name} {reason}: {error.details()}"] += 1


class Load:
    """Submits jobs to the orchestrators in turn and watches each to its end."""

    def __init__(
        self,
        orchestrators: Sequence[Sequence[PipelineServiceStub]],
        word: str,
        webhook_url: str = "",
    ) -> None:
        self._orchestrators = orchestrators
        self._word = word
        self._webhook_url = webhook_url
        self.orders: list[Order] = []
        self.noted = Noted()
        self.is_old: Callable[[int], bool] = lambda _: False
        """Whether this orchestrator runs an earlier version now."""
        self.old_until = 0.0
        """When the last orchestrator of an earlier version was stopped, in seconds since 1970."""
        self.quorum = Quorum()
        self.enough = asyncio.Event()
        """Set once no more jobs are needed than the least."""
        self.submitted_at = 0.0
        """When the last job was submitted; 0: it was not."""

    def progress(self) -> tuple[int, int, int]:
        """Jobs submitted and ended, and events seen of all."""
        seen = sum(len(order.seen.sequences) for order in self.orders)
        return len(self.orders), sum(order.ended for order in self.orders), seen

    async def accepts_another(self) -> None:
        """Returns when a job was accepted after this call."""
        before = len(self.quorum.accepts)
        await until(lambda: len(self.quorum.accepts) > before, ACCEPT_SECONDS)

    def _stub(self, orchestrator: int, number: int) -> PipelineServiceStub:
        stubs = self._orchestrators[orchestrator % len(self._orchestrators)]
        return stubs[number % len(stubs)]

    async def run(
        self, least: int, pause: float, make: Callable[[int], Order] | None = None
    ) -> None:
        """Submits a job every so often, until there is enough; returns when all have ended."""
        make = make or null_order
        unaccepted = asyncio.Semaphore(MAX_UNACCEPTED)
        working: list[asyncio.Task[None]] = []
        try:
            for number in count():
                if number >= least and self.enough.is_set():
                    break
                await unaccepted.acquire()
                order = make(number)
                self.orders.append(order)
                working.append(asyncio.create_task(self._see_through(order, unaccepted)))
                await asyncio.sleep(pause)
            self.submitted_at = monotonic()
            await asyncio.gather(*working)
        finally:
            await stop(*working)

    async def _see_through(self, order: Order, unaccepted: asyncio.Semaphore) -> None:
        try:
            await self._accept(order)
        finally:
            unaccepted.release()
        await asyncio.gather(self._look_everywhere(order), self._watch(order))
        order.ended = True

    async def _accept(self, order: Order) -> None:
        request = pb.CreateJobRequest(
            source_url=order.url,
            request_id=f"{self._word}-{order.number}",
            webhook_url=self._webhook_url,
            force=True,
        )
        for turn in count(order.number):
            began = monotonic()
            try:
                stub = self._stub(turn, order.number)
                order.job_id = (await stub.CreateJob(request, timeout=CALL_SECONDS)).job.job_id
            except grpc.aio.AioRpcError as error:
                self.noted.error(error)
                if reason_of(error) in REFUSED:
                    self.noted.refusals.append(monotonic() - began)
            else:
                self.quorum.accepts.append(monotonic())
                return
            await asyncio.sleep(AGAIN_SECONDS)

    async def _look_everywhere(self, order: Order) -> None:
        """Asks every orchestrator at once: an accepted job is known to each."""
        request = pb.GetJobRequest(job_id=order.job_id)

        async def look(orchestrator: int) -> None:
            try:
                stub = self._stub(orchestrator, order.number)
                await stub.GetJob(request, timeout=LOOK_SECONDS)
            except grpc.aio.AioRpcError as error:
                self._note(error, orchestrator)

        await asyncio.gather(*map(look, range(len(self._orchestrators))))

    def _note(self, error: grpc.aio.AioRpcError, orchestrator: int) -> None:
        self.noted.error(error)
        if error.code() in GONE:
            old = self.is_old(orchestrator % len(self._orchestrators))
            self.noted.not_found += not old
            self.noted.not_found_by_old += old

    async def _watch(self, order: Order) -> None:
        """Follows a job to its end; begins at the orchestrator that did not accept it."""
        for turn in count(order.number + 1):
            stub = self._stub(turn, order.number)
            request = pb.WatchJobRequest(job_id=order.job_id, after_sequence=order.seen.last)
            call = stub.WatchJob(request)
            try:
                async for update in call:
                    if order.seen.note(update):
                        return
            except grpc.aio.AioRpcError as error:
                self._note(error, turn)
            finally:
                call.cancel()
            order.seen.cuts += 1
            await asyncio.sleep(AGAIN_SECONDS)

    async def judged(self) -> list[Judged]:
        """What became of every accepted job, asked anew and of each orchestrator in turn."""
        accepted = [order for order in self.orders if order.job_id]
        return await map_concurrently(self._judge, accepted, at_once=JUDGED_AT_ONCE)

    async def _judge(self, order: Order) -> Judged:
        caller = Caller(self._stub(order.number // 2, order.number))
        job = await caller.job(order.job_id)
        ended = job is not None and job.state in TERMINAL
        event_log, endless = await self._event_log(order) if ended else ([], False)
        outcome = judge(order.job_id, order.url, job, event_log, order.seen, differs=False)
        differs = False
        if not outcome.lost:
            found = [one["text"] for one in (await caller.transcript(order.job_id))["segments"]]
            events = (update.event for update in event_log)
            logged = [
                event.segment_settled.segment.text
                for event in events
                if event.HasField("segment_settled")
            ]
            differs = found != logged or order.segments not in (None, len(logged))
            if differs and job is not None and job.end_time.ToSeconds() <= self.old_until:
                self.noted.differ_by_old += 1
                differs = False
        seen = order.seen.sequences
        disordered = sum(later < earlier for earlier, later in pairwise(seen))
        return Judged(outcome, ended, job is not None, disordered, differs, endless)

    async def _event_log(self, order: Order) -> tuple[list[pb.WatchJobResponse], bool]:
        """Every stored event of a job that has ended, and whether a watch of it goes on."""
        for turn in range(WATCH_TRIES):
            stub = self._stub(order.number // 2 + turn, order.number)
            call = stub.WatchJob(pb.WatchJobRequest(job_id=order.job_id), timeout=WATCH_SECONDS)
            found: list[pb.WatchJobResponse] = []
            try:
                async for update in call:
                    found += [update] if update.sequence else []
            except grpc.aio.AioRpcError as error:
                self.noted.error(error)
            else:
                return found, False
            finally:
                call.cancel()
        return found, True

    async def surplus(self) -> int:
        """How many more jobs there are than were accepted."""
        total = await Caller(self._stub(0, 0)).count()
        return total - sum(bool(order.job_id) for order in self.orders)


def null_order(number: int) -> Order:
    """A job for null stages, of two to nine segments."""
    plan = Plan(segments=2 + number % 8, every=0.05)
    return Order(number, plan.url, plan.segments)


@asynccontextmanager
async def connected(addresses: Sequence[str]) -> AsyncIterator[list[list[PipelineServiceStub]]]:
    """Several connections to each orchestrator."""
    options = (*OPTIONS, ("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1))
    channels = [
        [grpc.aio.insecure_channel(address, options) for _ in range(CONNECTIONS)]
        for address in addresses
    ]
    try:
        yield [[PipelineServiceStub(channel) for channel in each] for each in channels]
    finally:
        for each in channels:
            for channel in each:
                await channel.close()
