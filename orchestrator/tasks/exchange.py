"""Tasks of programs that know only JSON over NATS: one message out, one answer in.

The message goes to the queue of the type. The answer comes through the inbox, which stores it with
the task before it acknowledges it: whichever orchestrator has the task then finds it there, also
after a crash. The first answer counts.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any

from google.protobuf.json_format import MessageToDict
from nats.aio.msg import Msg
from nats.js import api
from structlog import get_logger

from mesh.bus import outlast, storing
from mesh.errors import MeshError, NotFoundError
from orchestrator.tasks.answers import (
    COLLECTION_RESULT,
    DONE,
    START_COLLECTION,
    START_EXECUTION,
    Result,
    check_failure,
    collected,
    envelope,
    executed,
    read_result,
)
from orchestrator.tasks.lease import TaskLease
from orchestrator.tasks.records import OPEN, RUNNING, VersionedTask
from orchestrator.tasks.storage import TaskStorage
from orchestrator.tasks.types import COLLECTOR, EXECUTOR, Registered, RoleId
from ytcaption.v1 import collector_service_pb2, executor_service_pb2, task_pb2

log = get_logger(__name__)

ANSWER = "answer"
"""The name of a stored answer, in the object store behind the id of the task."""
ACK_WAIT_SECONDS = 60.0
"""A message that is not acknowledged comes again; `in progress` renews the time."""
LOOK_SECONDS = 2.0
"""An answer whose announcement was lost is found within this."""
MAX_ITEMS_BYTES = 512 * 1024
"""Texts in one message; what is more is named by its address."""
MAX_TEXT_BYTES = 32 * 1024
MAX_ITEMS = 2000
MAX_LIST_BYTES = 2 * 1024**2
"""All items of one message, which the broker takes up to 4 MB."""
MESSAGE_ID = "Nats-Msg-Id"


class Exchange:
    """Sends messages to the queues of types, and takes the answers."""

    def __init__(self, storage: TaskStorage) -> None:
        self._storage = storage
        self._bus = storage.bus
        self._artifacts = storage.jobs.patient_artifacts

    async def create_queue(self, type_: str) -> None:
        """Creates the consumer of a type's queue: the programs themselves may make none."""
        config = api.ConsumerConfig(
            durable_name=type_,
            filter_subject=self._bus.names.queue(type_),
            ack_policy=api.AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_SECONDS,
        )
        async with storing():
            await self._bus.jetstream.add_consumer(self._bus.names.queues_stream, config)

    async def collect(
        self, lease: TaskLease, registered: Registered
    ) -> AsyncGenerator[collector_service_pb2.CollectResponse, None]:
        """What a program found; MeshError as it says if it failed."""
        record = lease.record
        payload = _payload(lease.task) | {"limite": record.max_items}
        payload |= {"de": record.from_date or None, "ate": record.to_date or None}
        result = await self._asked(lease, registered, START_COLLECTION, payload)
        for found in result.dados:
            yield collected(found)

    async def execute(
        self,
        lease: TaskLease,
        registered: Registered,
        start: executor_service_pb2.ExecuteStart,
        items: AsyncIterator[executor_service_pb2.ExecuteRequest],
    ) -> AsyncGenerator[executor_service_pb2.ExecuteResponse, None]:
        """What a program made; MeshError as it says if it failed."""
        collection = start.collection
        payload = _payload(lease.task) | {
            "colecao": {"collection_id": collection.collection_id, "titulo": collection.title},
            "itens": await listed(collection.collection_id, items),
        }
        result = await self._asked(lease, registered, START_EXECUTION, payload)
        yield executed(result)

    async def _asked(
        self, lease: TaskLease, registered: Registered, kind: str, payload: dict[str, Any]
    ) -> Result:
        """The stored answer of an earlier attempt, or that to a message which is sent now."""
        task_id, arrived = lease.task.task_id, asyncio.Event()

        async def on_answer(_: Msg) -> None:
            arrived.set()

        async with self._bus.subscribed(self._bus.names.answer(task_id), on_answer):
            found = await self._stored(task_id)
            if found is None:
                await self._send(lease, registered, kind, payload)
            while found is None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await arrived.wait()
                arrived.clear()
                found = await self._stored(task_id)
        result = read_result(found)
        try:
            check_failure(result)
        except MeshError:
            await self._artifacts.drop(task_id, ANSWER)  # the next attempt is another question
            raise
        return result

    async def _send(
        self, lease: TaskLease, registered: Registered, kind: str, payload: dict[str, Any]
    ) -> None:
        record = lease.record
        await self.withdraw(record)
        await self.create_queue(registered.type)
        message = envelope(kind, record.correlation_id, payload)
        data = json.dumps(message, ensure_ascii=False).encode(errors="replace")
        sequence = await self._bus.publish(
            self._bus.names.queue(registered.type),
            data,
            {MESSAGE_ID: f"{lease.task.task_id}.{lease.task.attempt}"},
        )
        record.queued_sequence = sequence
        await lease.save()

    async def withdraw(self, record: task_pb2.TaskRecord) -> None:
        """Removes the task's message from its queue, if it is still there."""
        if record.queued_sequence:
            sequence, record.queued_sequence = record.queued_sequence, 0
            stream = self._bus.names.queues_stream
            await outlast(lambda: self._bus.erase(stream, sequence))

    async def _stored(self, task_id: str) -> dict[str, Any] | None:
        try:
            parts = [part async for part in self._artifacts.read(task_id, ANSWER)]
        except NotFoundError:
            return None
        payload: dict[str, Any] = json.loads(b"".join(parts))
        return payload

    async def take(self, kind: str, correlation_id: str, payload: dict[str, Any]) -> bool:
        """Stores an answer with its task; False if no task waits for it."""
        task_id = payload.get("tarefa_id")
        role = COLLECTOR if kind == COLLECTION_RESULT else EXECUTOR
        if isinstance(task_id, str) and task_id:
            versioned = await self._get(task_id)
        else:
            versioned = await self._only(role, correlation_id)
        if versioned is None or not _waits(versioned.record, role, correlation_id):
            return False
        result = read_result(payload)  # refused, it is a dead letter, and the attempt times out
        if result.status != DONE and versioned.task.state != RUNNING:
            return False  # the failure of an attempt that is over
        if await self._artifacts.size(versioned.id, ANSWER) is None:
            await self._artifacts.put(versioned.id, ANSWER, json.dumps(payload).encode())
        await self._bus.client.publish(self._bus.names.answer(versioned.id), b"")
        return True

    async def _only(self, role: RoleId, correlation_id: str) -> VersionedTask | None:
        """The task of that correlation that waits for an answer, if it is the only one."""
        found = []
        for task_id in await self._storage.index.unfinished():
            record = self._storage.index.record(task_id)
            if record is not None and _waits(record, role, correlation_id):
                found.append(task_id)
        return await self._get(found[0]) if len(found) == 1 else None

    async def _get(self, task_id: str) -> VersionedTask | None:
        try:
            return await self._storage.records.get(task_id)
        except NotFoundError:
            return None


def _waits(record: task_pb2.TaskRecord, role: RoleId, correlation_id: str) -> bool:
    """Whether a program may answer the task: one that was given to it, and has not ended."""
    is_open = record.queued and record.task.role == role and record.task.state in OPEN
    return is_open and record.correlation_id == correlation_id


def _payload(task: task_pb2.Subtask) -> dict[str, Any]:
    return {
        "tarefa_id": task.task_id,
        "tipo": task.type,
        "parametros": MessageToDict(task.parameters),
        "tentativa": task.attempt,
    }


async def listed(
    collection_id: str, items: AsyncIterator[executor_service_pb2.ExecuteRequest]
) -> list[dict[str, Any]]:
    """Members and documents as JSON; large texts by the address where the gateway has them."""
    found = _ItemList(collection_id)
    async for item in items:
        if found.full and not item.HasField("segments"):
            break
        found.add(item)
    return found.found


class _ItemList:
    """The items of one message, within its size."""

    def __init__(self, collection_id: str) -> None:
        self.found: list[dict[str, Any]] = []
        self._documents = f"/collections/{collection_id}/documents"
        self._free = MAX_ITEMS_BYTES
        self._size = 0
        self._cut = False
        """Whether the last item's text was too long."""

    @property
    def full(self) -> bool:
        """Whether no other item fits."""
        return len(self.found) >= MAX_ITEMS or self._size >= MAX_LIST_BYTES

    def add(self, item: executor_service_pb2.ExecuteRequest) -> None:
        """Adds an item, or a part of the text of the last one."""
        match item.WhichOneof("event"):
            case "member":
                self._begin(_recording(item.member, has_captions=True))
            case "missing":
                self._begin(_recording(item.missing, has_captions=False))
            case "document":
                self._begin(_document(item.document) | {"endereco": self._documents})
                self._put_text(item.document.text)
            case "segments" if not self._cut:
                part = item.segments.text or " ".join(one.text for one in item.segments.segments)
                self._put_text(f"{self.found[-1].get('texto', '')} {part}".strip())

    def _begin(self, item: dict[str, Any]) -> None:
        self.found.append(item)
        self._cut = False
        self._size += len(json.dumps(item))

    def _put_text(self, text: str) -> None:
        """Puts the text so far, or takes it out: a part of one would look like the whole."""
        before = len(str(self.found[-1].pop("texto", "")).encode())
        length = len(text.encode())
        self._free += before
        self._cut = length > min(MAX_TEXT_BYTES, self._free)
        if not self._cut:
            self.found[-1]["texto"] = text
            self._free -= length


def _recording(member: Any, *, has_captions: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "tipo": "gravacao",
        "numero": member.number,
        "job_id": member.job_id,
        "url": member.source_url,
        "titulo": member.title,
        "idioma": member.language,
        "status": "concluida" if has_captions else "erro",
    }
    if has_captions:
        found["endereco"] = f"/jobs/{member.job_id}/captions.txt"
    return found


def _document(document: task_pb2.Document) -> dict[str, Any]:
    return {
        "tipo": "documento",
        "numero": document.number,
        "url": document.url,
        "titulo": document.title,
        "idioma": document.language,
        "data_publicacao": document.publish_date,
    }
