"""One attempt at one task: calls its collector or executor and records how it ended."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf.timestamp import from_current_time
from structlog import get_logger

from mesh.errors import InternalError, InvalidRequestError, MeshError, TimedOutError
from mesh.reasons import Reason
from mesh.tasks import stop
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.metrics import RETRIES
from orchestrator.pipeline.stages import failure_of
from orchestrator.queue.capacity import Capacity
from orchestrator.settings import Settings
from orchestrator.tasks.exchange import Exchange
from orchestrator.tasks.intake import Intake
from orchestrator.tasks.lease import TaskLease
from orchestrator.tasks.log import TaskLog
from orchestrator.tasks.records import CANCELLED, COMPLETED, FAILED, PENDING, RUNNING
from orchestrator.tasks.results import Results
from orchestrator.tasks.spool import Spool
from orchestrator.tasks.storage import TaskStorage
from orchestrator.tasks.types import COLLECTOR, Registered
from orchestrator.worker.retry import Backoff
from ytcaption.v1 import collector_service_pb2, event_pb2, executor_service_pb2, task_pb2

log = get_logger(__name__)

SAVE_SECONDS = 1.0


class Inputs(Protocol):
    """What executors work on."""

    async def start(self, record: task_pb2.TaskRecord) -> executor_service_pb2.ExecuteStart:
        """The beginning of a call."""
        ...

    def items(
        self, record: task_pb2.TaskRecord, *, segments: bool
    ) -> AsyncIterator[executor_service_pb2.ExecuteRequest]:
        """Members and documents, as they are now."""
        ...


@dataclass(frozen=True, slots=True)
class Engine:
    """The collaborators every attempt shares; built once in wiring."""

    storage: TaskStorage
    settings: Settings
    capacity: Capacity
    inputs: Inputs
    exchange: Exchange


class _CancelRequestedError(Exception):
    """The collection was cancelled, or is over."""


class TaskAttempt:
    """Runs a task whose lease this worker holds."""

    def __init__(
        self,
        engine: Engine,
        registered: Registered,
        lease: TaskLease,
        seen: TaskLog,
    ) -> None:
        self._engine = engine
        self._registered = registered
        self._lease = lease
        self._seen = seen
        settings = engine.settings
        self._backoff = Backoff(settings.retry_seconds, settings.retry_limit_seconds)
        self._event_log = EventLogWriter(engine.storage.bus, lease.record, seen.last_sequence)

    @property
    def _task(self) -> task_pb2.Subtask:
        return self._lease.task

    async def run(self) -> float | None:
        """Seconds until the next attempt, or None if the task has ended."""
        path = self._engine.settings.work_dir / f"tmp-{self._lease.runner_id}-file"
        spool = Spool(
            self._lease,
            self._engine.storage.jobs.patient_artifacts,
            self._engine.capacity,
            path,
            self._engine.settings.max_task_bytes - self._seen.size,
        )
        try:
            await self._append()
            self._check_crashes()
            await self._unless_cancelled(self._within_time(self._call(spool)))
        except _CancelRequestedError:
            await self._end(CANCELLED)
            return None
        except MeshError as error:
            return await self._failed(error)
        finally:
            spool.close()
        self._task.progress = 1.0
        await self._end(COMPLETED)
        return None

    def _check_crashes(self) -> None:
        record = self._lease.record
        crashes = self._task.attempt - 1 - record.earlier_attempts - record.failures
        if crashes >= self._engine.settings.max_crashes:
            raise InternalError(f"{crashes} attempts lost their worker", reason=Reason.CRASH_LOOP)

    async def _append(self) -> None:
        """Appends the task as it stands; from here on no earlier attempt can append."""
        await self._event_log.append(subtask_changed=event_pb2.SubtaskChanged(subtask=self._task))

    async def _unless_cancelled(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the work; stops it within a moment when the task is to be cancelled."""
        working = asyncio.create_task(work)
        asked = asyncio.create_task(self._lease.cancel_requested.wait())
        if self._lease.cancel_requested.is_set():
            working.cancel()  # before it begins
        saving = asyncio.create_task(self._save_progress())
        try:
            await asyncio.wait((working, asked, saving), return_when=asyncio.FIRST_COMPLETED)
            if saving.done():
                saving.result()  # the lease was lost
            if asked.done() and (not working.done() or working.cancelled()):
                raise _CancelRequestedError
            working.result()
        finally:
            await stop(working, asked, saving)

    async def _save_progress(self) -> None:
        """Stores progress once a second, if there is any."""
        shown = self._task.found, self._task.progress
        while True:
            await asyncio.sleep(SAVE_SECONDS)
            if shown != (now := (self._task.found, self._task.progress)):
                shown = now
                await self._lease.save()

    @property
    def _queued(self) -> bool:
        return self._registered.transport == task_pb2.TASK_TRANSPORT_QUEUE

    async def _within_time(self, work: Coroutine[Any, Any, None]) -> None:
        seconds = self._registered.timeout_seconds
        try:
            async with asyncio.timeout(seconds) as limit:
                await work
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimedOutError(
                f"{self._registered.type} had not ended after {seconds:g} s",
                reason=Reason.DEADLINE,
            ) from error

    async def _call(self, spool: Spool) -> None:
        if self._task.role == COLLECTOR:
            await self._collect(spool)
        else:
            await self._execute(spool)

    async def _collect(self, spool: Spool) -> None:
        intake = Intake(self._lease, self._event_log, self._seen, spool)
        async with aclosing(self._found()) as responses:
            async for response in responses:
                await intake.take(response)
                if intake.full:
                    log.info("a collector is stopped: it found as much as may be")
                    return
        intake.end()

    def _found(self) -> AsyncGenerator[collector_service_pb2.CollectResponse, None]:
        record, task = self._lease.record, self._task
        if self._queued:
            return self._engine.exchange.collect(self._lease, self._registered)
        if self._registered.collector is None:
            raise InvalidRequestError(f"{task.type} is no collector", reason=Reason.TYPE_UNKNOWN)
        return self._registered.collector.collect(
            collector_service_pb2.CollectRequest(
                task_id=task.task_id,
                correlation_id=record.correlation_id,
                attempt=task.attempt,
                type=task.type,
                parameters=task.parameters,
                from_date=record.from_date,
                to_date=record.to_date,
                max_items=record.max_items,
            )
        )

    async def _execute(self, spool: Spool) -> None:
        record, inputs = self._lease.record, self._engine.inputs
        start = await inputs.start(record)
        segments = self._registered.description.needs_segments
        items = inputs.items(record, segments=segments)
        results = Results(self._lease, spool)
        async with aclosing(self._made(start, items)) as responses:
            async for response in responses:
                await results.take(response)
        results.end()

    def _made(
        self,
        start: executor_service_pb2.ExecuteStart,
        items: AsyncIterator[executor_service_pb2.ExecuteRequest],
    ) -> AsyncGenerator[executor_service_pb2.ExecuteResponse, None]:
        if self._queued:
            return self._engine.exchange.execute(self._lease, self._registered, start, items)
        if self._registered.executor is None:
            raise InvalidRequestError(
                f"{self._task.type} is no executor", reason=Reason.TYPE_UNKNOWN
            )
        return self._registered.executor.execute(start, items)

    async def _failed(self, error: MeshError) -> float | None:
        record, task = self._lease.record, self._task
        if isinstance(error, InvalidRequestError) and error.reason == Reason.REQUEST_INVALID:
            # It is the answer that is invalid, or the parameters, and not a request of a caller.
            error = InvalidRequestError(str(error), reason=Reason.TASK_REFUSED)
        task.failure.CopyFrom(failure_of(error, attempt=task.attempt))
        record.failures += 1
        log.warning("attempt at a task failed", reason=error.reason, error=str(error))
        if not error.retryable or record.failures >= self._engine.settings.max_attempts:
            await self._end(FAILED)
            return None
        wait = self._backoff.delay(record.failures, error)
        RETRIES.labels("task", error.reason).inc()
        task.state = PENDING
        await self._append()
        await self._lease.save()
        return wait

    async def _end(self, state: "task_pb2.SubtaskState.ValueType") -> None:
        if self._queued:
            await self._engine.exchange.withdraw(self._lease.record)
        await self._engine.storage.end(self._lease, self._event_log, state)


def begin(record: task_pb2.TaskRecord, registered: Registered) -> None:
    """Makes the record look as at the beginning of an attempt."""
    record.queued = registered.transport == task_pb2.TASK_TRANSPORT_QUEUE
    task = record.task
    task.attempt += 1
    task.state = RUNNING
    task.ClearField("failure")
    task.ClearField("progress")
    if not record.HasField("start_time"):
        record.start_time.CopyFrom(from_current_time())
