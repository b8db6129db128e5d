"""The workers of tasks: one consumer for each registered type, so no type waits for another."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from nats.aio.msg import Msg
from structlog import get_logger
from structlog.contextvars import bound_contextvars

from mesh.bus import outlast
from mesh.errors import InvalidRequestError, MeshError, NotFoundError
from mesh.reasons import Reason
from mesh.tasks import stop
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.jobs.lease import LostError
from orchestrator.jobs.storage import PATIENCE_SECONDS
from orchestrator.jobs.store import ConflictError
from orchestrator.queue.consumers import Consumer, wait_for_record
from orchestrator.queue.work_queue import id_of_subject
from orchestrator.tasks.attempt import Engine, TaskAttempt, begin
from orchestrator.tasks.control import TaskControl
from orchestrator.tasks.lease import TaskLease
from orchestrator.tasks.log import read_task_log
from orchestrator.tasks.queue import durable_of
from orchestrator.tasks.records import VersionedTask
from orchestrator.tasks.types import COLLECTOR, EXECUTOR, Registered, RoleId, Types, role_word
from orchestrator.worker.retry import Backoff
from ytcaption.v1 import task_pb2

log = get_logger(__name__)

LONGEST_WAIT_SECONDS = 30.0
LOOK_SECONDS = 10.0
UNKNOWN_SECONDS = 60.0
"""A task whose type has been unknown for this long fails: the type was taken back."""
ROLES = (COLLECTOR, EXECUTOR)


class TypeWorker(Consumer):
    """Runs the tasks of one type; over all orchestrators at most `max_in_flight` at once."""

    def __init__(self, engine: Engine, registered: Registered, leases: set[TaskLease]) -> None:
        settings, bus = engine.settings, engine.storage.bus
        self.registered = registered
        """The type as it is now."""
        self._engine = engine
        self._leases = leases
        backoff = Backoff(settings.retry_seconds, LONGEST_WAIT_SECONDS)
        super().__init__(
            bus,
            bus.names.tasks_stream,
            durable_of(registered.role, registered.type),
            settings.ack_wait_seconds,
            filter_subject=bus.names.task(role_word(registered.role), registered.type, "*"),
            max_deliver=-1,
            max_ack_pending=registered.max_in_flight,
            at_once=registered.max_in_flight,
            retry_after=lambda message, _: backoff.delay(message.metadata.num_delivered),
            lost=(LostError, ConflictError),
            heartbeat=True,
        )

    async def _handle(self, message: Msg) -> float | None:
        """Seconds until the next attempt, or None once nothing is left to do."""
        task_id, storage = id_of_subject(message.subject), self._engine.storage
        with bound_contextvars(task_id=task_id, type=self.registered.type):
            try:
                versioned = await outlast(lambda: storage.records.get(task_id))
            except NotFoundError:
                return wait_for_record(message.metadata.timestamp, message.metadata.num_delivered)
            record = versioned.record
            with bound_contextvars(
                collection_id=record.collection_id, correlation_id=record.correlation_id
            ):
                return await self._run(versioned)

    async def _run(self, versioned: VersionedTask) -> float | None:
        storage = self._engine.storage
        if versioned.ended:
            await self._complete(versioned)
            return None
        lease = TaskLease(storage.records, versioned)
        begin(lease.record, self.registered)
        # Before the record says RUNNING: only then is its worker asked to cancel it.
        self._leases.add(lease)
        try:
            # First of all: a crash from here on counts as an attempt.
            await lease.take()
            seen = await read_task_log(
                storage.jobs.event_logs, versioned.id, patience_seconds=PATIENCE_SECONDS
            )
            attempt = TaskAttempt(self._engine, self.registered, lease, seen)
            return await attempt.run()
        finally:
            self._leases.discard(lease)

    async def _complete(self, versioned: VersionedTask) -> None:
        """Completes the event log of a task whose worker died right after its end."""
        storage = self._engine.storage
        seen = await read_task_log(
            storage.jobs.event_logs, versioned.id, patience_seconds=PATIENCE_SECONDS
        )
        if not seen.finished:
            writer = EventLogWriter(storage.bus, versioned.record, seen.last_sequence)
            await storage.complete(versioned.record, writer)


@dataclass(slots=True)
class _Running:
    worker: TypeWorker
    task: asyncio.Task[None]


class TaskWorkers:
    """Keeps one worker for each registered type, as types come and go."""

    def __init__(self, engine: Engine, types: Types, control: TaskControl) -> None:
        self._engine = engine
        self._types = types
        self._control = control
        self._running: dict[tuple[RoleId, str], _Running] = {}
        self._leases: set[TaskLease] = set()
        """Of the attempts under way."""
        self._unknown_since: dict[str, float] = {}

    async def run(self) -> None:
        """Runs until cancelled; tasks under way then go back to their queues."""
        bus = self._engine.storage.bus
        async with bus.subscribed(bus.names.cancel("*"), self._on_cancel):
            try:
                while True:
                    changed = asyncio.create_task(self._types.changed())
                    try:
                        await asyncio.sleep(0)  # it waits before the types are read
                        await self._arrange()
                        await self._fail_unknown()
                        await self._until(changed)
                    finally:
                        await stop(changed)
            finally:
                await stop(*(one.task for one in self._running.values()))
                self._running.clear()

    async def _until(self, changed: "asyncio.Task[None]") -> None:
        tasks = [changed, *(one.task for one in self._running.values())]
        done, _ = await asyncio.wait(
            tasks, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            task.result()  # a worker ends only with a fault of ours

    async def _on_cancel(self, message: Msg) -> None:
        task_id = id_of_subject(message.subject)
        for lease in self._leases:
            if lease.task.task_id == task_id:
                lease.cancel_requested.set()

    async def _arrange(self) -> None:
        """Starts, changes and stops workers so that there is one for each type."""
        known = {(role, one.type): one for role in ROLES for one in self._types.known(role)}
        for key in list(self._running):
            there = self._running[key].worker
            now = known.get(key)
            if now is not None and now.max_in_flight == there.registered.max_in_flight:
                there.registered = now
                continue
            await stop(self._running.pop(key).task)
        for key, registered in known.items():
            if key not in self._running:
                worker = TypeWorker(self._engine, registered, self._leases)
                task = asyncio.create_task(worker.run())
                self._running[key] = _Running(worker, task)
                log.info("type is served", type=registered.type, role=role_word(registered.role))
            if registered.transport == task_pb2.TASK_TRANSPORT_QUEUE:
                with suppress(MeshError):  # it is created before each message, too
                    await self._engine.exchange.create_queue(registered.type)

    async def _fail_unknown(self) -> None:
        """Fails tasks whose type was taken back."""
        try:
            unfinished = await self._control.storage.index.unfinished()
        except MeshError:
            return
        unknown = {one for one in unfinished if not self._is_known(one)}
        self._unknown_since = {
            one: self._unknown_since.get(one, monotonic()) for one in sorted(unknown)
        }
        for task_id, since in self._unknown_since.items():
            if monotonic() - since >= UNKNOWN_SECONDS:
                with suppress(MeshError):
                    await self._control.fail(task_id, _TYPE_TAKEN_BACK)

    def _is_known(self, task_id: str) -> bool:
        record = self._control.storage.index.record(task_id)
        return record is None or (record.task.role, record.task.type) in self._running


_TYPE_TAKEN_BACK = InvalidRequestError(
    "its type is not registered any more", reason=Reason.TYPE_UNKNOWN
)
