"""The connection to NATS JetStream, and everything of ours that lives there."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, Self, TypeVar

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, KeyNotFoundError, KeyWrongLastSequenceError, NotFoundError
from nats.js.kv import KeyValue
from nats.js.object_store import ObjectStore
from structlog import get_logger

from mesh.errors import LimitExceededError, UnavailableError
from mesh.reasons import Reason

log = get_logger(__name__)

T = TypeVar("T")

GIB = 1024**3
BATCH = 500
ANSWER_SECONDS = 5
WRONG_LAST_SEQUENCE = (10071, 10164)
OUT_OF_ROOM = (10023, 10047, 10077)
"""Insufficient resources, storage exceeded, a stream's own limit."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much each store may hold; full means refused at once, never a time-out."""

    replicas: int = 1
    storage_bytes: int = 16 * GIB
    """In all; the broker sets it aside, so it must have it."""
    event_age_seconds: float = 30 * 86_400

    def share(self, part: float) -> int:
        """A part of the whole storage."""
        return int(self.storage_bytes * part)


@dataclass(frozen=True, slots=True)
class Stored:
    """One message read back from a stream."""

    sequence: int
    subject: str
    data: bytes
    deleted: bool
    """A key that was deleted or purged."""


class Names:
    """What our streams, buckets and subjects are called under one prefix."""

    def __init__(self, prefix: str) -> None:
        self.work_stream = f"{prefix}_WORK"
        self.events_stream = f"{prefix}_EVENTS"
        self.dead_letter_stream = f"{prefix}_DLQ"
        self.jobs_bucket = f"{prefix}_JOBS"
        self.artifacts_bucket = f"{prefix}_ARTIFACTS"
        self._root = prefix.lower()

    def streams(self) -> list[str]:
        """Every stream of ours, those behind the buckets included."""
        return [
            self.work_stream,
            self.events_stream,
            self.dead_letter_stream,
            f"KV_{self.jobs_bucket}",
            f"OBJ_{self.artifacts_bucket}",
        ]

    def work(self, job_id: str) -> str:
        """Subject of a job's one work item."""
        return f"{self._root}.work.{job_id}"

    def event(self, job_id: str, kind: str) -> str:
        """Subject of one kind of stored event of a job."""
        return f"{self._root}.events.{job_id}.{kind}"

    def dead_letter(self, job_id: str) -> str:
        """Subject of a job's dead letter."""
        return f"{self._root}.dlq.{job_id}"

    def live(self, job_id: str, kind: Literal["event", "progress", "*"]) -> str:
        """Core subject on which a job's runner tells watchers what just happened."""
        return f"{self._root}.live.{job_id}.{kind}"

    def cancel(self, job_id: str) -> str:
        """Core subject on which a job's runner is told to stop."""
        return f"{self._root}.cancel.{job_id}"


class Bus:
    """An open connection with every store in place."""

    def __init__(self, client: Client, names: Names) -> None:
        self.client = client
        self.names = names
        self.jetstream: JetStreamContext = client.jetstream(timeout=ANSWER_SECONDS)
        self.jobs: KeyValue
        self.artifacts: ObjectStore

    @classmethod
    @asynccontextmanager
    async def connected(
        cls, url: str, *, prefix: str = "YTC", limits: Limits | None = None, name: str = ""
    ) -> AsyncIterator[Self]:
        """Connects, makes what is missing, and reconnects for ever until the block ends."""
        try:
            client = await nats.connect(
                url,
                name=name or "ytcaption",
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.25,
                allow_reconnect=True,
                error_cb=_log_error,
                disconnected_cb=_log_disconnect,
                reconnected_cb=_log_reconnect,
                connect_timeout=5,
            )
        except (NatsError, OSError) as error:
            raise UnavailableError(
                f"no NATS server answers at {url}", reason=Reason.STORAGE_UNAVAILABLE
            ) from error
        bus = cls(client, Names(prefix))
        try:
            async with storing():
                await bus._make_stores(limits or Limits())
            yield bus
        finally:
            await client.close()

    async def _make_stores(self, limits: Limits) -> None:
        names, js = self.names, self.jetstream
        for config in _streams(names, limits):
            try:
                await js.stream_info(str(config.name))
            except NotFoundError:
                await js.add_stream(config)
        self.jobs = await _key_value(js, names.jobs_bucket, limits)
        self.artifacts = await _object_store(js, names.artifacts_bucket, limits)

    async def publish(
        self, subject: str, data: bytes, headers: dict[str, str] | None = None
    ) -> int:
        """Stores a message and returns its sequence; a full or absent broker is a typed failure."""
        async with storing():
            return (await self.jetstream.publish(subject, data, headers=headers)).seq

    async def read(
        self, stream: str, subject: str, after: int = 0, *, batch: int = BATCH
    ) -> AsyncIterator[Stored]:
        """Everything stored under a subject filter after a sequence, without making a consumer."""
        while True:
            found = await self._read_batch(stream, subject, after + 1, batch)
            for stored in found:
                yield stored
            if len(found) < batch:
                return
            after = found[-1].sequence

    async def _read_batch(
        self, stream: str, subject: str, sequence: int, batch: int
    ) -> list[Stored]:
        request = {"seq": sequence, "next_by_subj": subject, "batch": batch}
        inbox = self.client.new_inbox()
        found: list[Stored] = []
        answers: asyncio.Queue[Msg] = asyncio.Queue()
        async with storing():
            # Not next_msg(): its wait_for may swallow a cancellation.
            listening = await self.client.subscribe(inbox, cb=answers.put)
            try:
                await self.client.publish(
                    f"$JS.API.DIRECT.GET.{stream}", json.dumps(request).encode(), reply=inbox
                )
                async with asyncio.timeout(ANSWER_SECONDS):
                    while (stored := _stored(await answers.get())) is not None:
                        found.append(stored)
            finally:
                if not self.client.is_closed:
                    await listening.unsubscribe()
        return found


def _stored(message: Msg) -> Stored | None:
    headers = message.headers or {}
    if not message.data and headers.get("Status") in ("204", "404"):
        return None
    return Stored(
        sequence=int(headers["Nats-Sequence"]),
        subject=headers["Nats-Subject"],
        data=message.data,
        deleted="KV-Operation" in headers,
    )


@asynccontextmanager
async def storing() -> AsyncIterator[None]:
    """Turns what nats-py raises into our own failures; a lost race passes through."""
    try:
        yield
    except (NotFoundError, KeyNotFoundError, KeyWrongLastSequenceError):
        raise
    except APIError as error:
        if error.err_code in WRONG_LAST_SEQUENCE:
            raise
        if error.err_code in OUT_OF_ROOM:
            raise LimitExceededError(
                "the store is full, or too small for what it should hold",
                reason=Reason.STORAGE_FULL,
            ) from error
        raise UnavailableError(
            f"the store refused: {error.description}", reason=Reason.STORAGE_UNAVAILABLE
        ) from error
    except (NatsError, TimeoutError, OSError) as error:
        raise UnavailableError(
            "the store does not answer", reason=Reason.STORAGE_UNAVAILABLE
        ) from error


async def outlast(act: Callable[[], Awaitable[T]], seconds: float = 60) -> T:
    """Repeats what the broker did not answer, until it is back or the time is up."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + seconds
    while True:
        try:
            return await act()
        except UnavailableError:
            if loop.time() > give_up:
                raise
            await asyncio.sleep(0.2)


def _streams(names: Names, limits: Limits) -> list[api.StreamConfig]:
    bounded = api.StreamConfig(
        storage=api.StorageType.FILE,
        num_replicas=limits.replicas,
        discard=api.DiscardPolicy.NEW,
        allow_direct=True,
    )
    return [
        bounded.evolve(
            name=names.work_stream,
            subjects=[names.work("*")],
            retention=api.RetentionPolicy.WORK_QUEUE,
            max_bytes=limits.share(0.04),
            # At most one work item a job, by construction.
            max_msgs_per_subject=1,
            discard_new_per_subject=True,
        ),
        bounded.evolve(
            name=names.events_stream,
            subjects=[names.event("*", "*")],
            max_bytes=limits.share(0.16),
            max_age=limits.event_age_seconds,
        ),
        bounded.evolve(
            name=names.dead_letter_stream,
            subjects=[names.dead_letter("*")],
            max_bytes=limits.share(0.02),
        ),
    ]


async def _key_value(js: JetStreamContext, bucket: str, limits: Limits) -> KeyValue:
    try:
        return await js.key_value(bucket)
    except NotFoundError:
        return await js.create_key_value(
            api.KeyValueConfig(
                bucket=bucket,
                history=1,
                storage=api.StorageType.FILE,
                replicas=limits.replicas,
                max_bytes=limits.share(0.08),
                direct=True,
            )
        )


async def _object_store(js: JetStreamContext, bucket: str, limits: Limits) -> ObjectStore:
    try:
        return await js.object_store(bucket)
    except NotFoundError:
        return await js.create_object_store(
            bucket,
            config=api.ObjectStoreConfig(
                bucket=bucket,
                storage=api.StorageType.FILE,
                replicas=limits.replicas,
                max_bytes=limits.share(0.7),
            ),
        )


async def _log_error(error: Exception) -> None:
    log.warning("nats", error=str(error) or type(error).__name__)


async def _log_disconnect() -> None:
    log.warning("disconnected from nats")


async def _log_reconnect() -> None:
    log.info("connected to nats again")
