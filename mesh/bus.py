"""The connection to NATS JetStream and access to our streams and stores."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeVar

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import StreamState
from nats.js.errors import APIError, KeyNotFoundError, KeyWrongLastSequenceError, NotFoundError
from nats.js.kv import KeyValue
from nats.js.object_store import ObjectStore
from structlog import get_logger

from mesh.errors import LimitExceededError, UnavailableError
from mesh.reasons import Reason
from mesh.stores import Limits, Names, key_value, make_streams, object_store

log = get_logger(__name__)

T = TypeVar("T")

BATCH = 500
ANSWER_SECONDS = 5.0
"""A broker that has not answered a request after this long counts as unavailable."""
CONNECT_SECONDS = 10
WRONG_LAST_SEQUENCE = (10071, 10164)
STORAGE_EXCEEDED = (10023, 10047, 10077)
"""JetStream error codes: insufficient resources, storage exceeded, a stream's own limit."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One message read back from a stream."""

    sequence: int
    subject: str
    data: bytes
    deleted: bool
    """Whether the message marks a deleted or purged key."""


class Bus:
    """An open connection; all streams and stores exist."""

    def __init__(
        self, client: Client, names: Names, *, answer_seconds: float = ANSWER_SECONDS
    ) -> None:
        self.client = client
        self.names = names
        self._answer_seconds = answer_seconds
        self.jetstream: JetStreamContext = client.jetstream(timeout=answer_seconds)
        self.jobs: KeyValue
        self.artifacts: ObjectStore

    @classmethod
    @asynccontextmanager
    async def connected(
        cls,
        url: str,
        *,
        prefix: str = "YTC",
        limits: Limits | None = None,
        name: str = "",
        answer_seconds: float = ANSWER_SECONDS,
    ) -> AsyncIterator[Self]:
        """Connects, creates missing streams and stores, and reconnects until the block ends."""
        client = await _connect(url, name or "ytcaption")
        bus = cls(client, Names(prefix), answer_seconds=answer_seconds)
        try:
            async with storing():
                await bus._open(limits or Limits())
            yield bus
        finally:
            with suppress(NatsError, OSError):  # the broker may be gone
                await client.close()

    async def _open(self, limits: Limits) -> None:
        await make_streams(self.jetstream, self.names, limits)
        self.jobs = await key_value(self.jetstream, self.names.jobs_bucket, limits)
        self.artifacts = await object_store(self.jetstream, self.names.artifacts_bucket, limits)

    async def publish(
        self, subject: str, data: bytes, headers: dict[str, str] | None = None
    ) -> int:
        """Stores a message and returns its sequence; a full or absent broker raises MeshError."""
        async with storing():
            return (await self.jetstream.publish(subject, data, headers=headers)).seq

    async def publish_fenced(
        self, subject: str, data: bytes, last: int, *, fence: str = "", message_id: str = ""
    ) -> int | None:
        """Stores a message if `last` is the newest sequence of the fence, by default its subject.

        Returns its sequence; None if another writer was first.
        """
        headers = {"Nats-Expected-Last-Subject-Sequence": str(last)}
        if fence:
            headers["Nats-Expected-Last-Subject-Sequence-Subject"] = fence
        if message_id:
            headers["Nats-Msg-Id"] = message_id
        try:
            return await self.publish(subject, data, headers)
        except APIError as error:
            if error.err_code not in WRONG_LAST_SEQUENCE:
                raise
            return None

    async def purge(self, stream: str, subject: str, *, until: int | None = None) -> None:
        """Removes the messages under a subject filter: all, or those up to a sequence."""
        seq = None if until is None else until + 1
        async with storing():
            await self.jetstream.purge_stream(stream, subject=subject, seq=seq)

    async def state(self, stream: str) -> StreamState:
        """How much a stream holds, and its first and last sequence."""
        async with storing():
            return (await self.jetstream.stream_info(stream)).state

    @asynccontextmanager
    async def subscribed(
        self, subject: str, receive: Callable[[Msg], Awaitable[None]]
    ) -> AsyncIterator[None]:
        """Passes core NATS messages on inside this block."""
        async with storing():
            subscription = await self.client.subscribe(subject, cb=receive)
        try:
            yield
        finally:
            if not self.client.is_closed:
                await subscription.unsubscribe()

    async def read(
        self,
        stream: str,
        subject: str,
        after: int = 0,
        *,
        batch: int = BATCH,
        patience_seconds: float = 0,
    ) -> AsyncIterator[Stored]:
        """Everything stored under a subject filter after a sequence; creates no consumer."""
        while True:
            reading = partial(self._read_batch, stream, subject, after + 1, batch)
            found = await outlast(reading, patience_seconds)
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
        # Not next_msg(): its wait_for may swallow a cancellation.
        async with storing(), self.subscribed(inbox, answers.put):
            await self.client.publish(
                f"$JS.API.DIRECT.GET.{stream}", json.dumps(request).encode(), reply=inbox
            )
            async with asyncio.timeout(self._answer_seconds):
                while (stored := _stored(await answers.get())) is not None:
                    found.append(stored)
        return found


async def _connect(url: str, name: str) -> Client:
    """Connects with a deadline; the client alone would retry without end and log every attempt."""
    client, logger = Client(), _ConnectionLogger()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await client.connect(
                url.split(","),
                name=name,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.25,  # type: ignore[arg-type] # it only sleeps that long
                error_cb=logger.error,
                disconnected_cb=logger.disconnected,
                reconnected_cb=logger.reconnected,
                connect_timeout=5,
            )
    except (NatsError, TimeoutError, OSError) as error:
        raise UnavailableError(
            f"no NATS server answers at {url}", reason=Reason.STORAGE_UNAVAILABLE
        ) from error
    return client


def _stored(message: Msg) -> Stored | None:
    headers = message.headers or {}
    status = headers.get("Status", "") if not message.data else ""
    if status in ("204", "404"):
        return None
    if status:  # such as 503 during stream recovery
        raise NatsError(f"status {status}: {headers.get('Description', '')}")
    return Stored(
        sequence=int(headers["Nats-Sequence"]),
        subject=headers["Nats-Subject"],
        data=message.data,
        deleted="KV-Operation" in headers,
    )


@asynccontextmanager
async def storing() -> AsyncIterator[None]:
    """Maps nats-py's exceptions to MeshError; missing keys and revision conflicts pass through."""
    try:
        yield
    except (NotFoundError, KeyNotFoundError, KeyWrongLastSequenceError):
        raise
    except APIError as error:
        if error.err_code in WRONG_LAST_SEQUENCE:
            raise
        if error.err_code in STORAGE_EXCEEDED:
            raise LimitExceededError(
                "the store is full, or too small for this message",
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
    """Retries while the broker is unavailable, until it answers or the time is up."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + seconds
    while True:
        try:
            return await act()
        except UnavailableError:
            if loop.time() > give_up:
                raise
            await asyncio.sleep(0.2)


class _ConnectionLogger:
    """Logs each connection error once; the client reports it four times a second."""

    def __init__(self) -> None:
        self._last_error = ""

    async def error(self, error: Exception) -> None:
        message = str(error) or type(error).__name__
        if message != self._last_error:
            self._last_error = message
            log.warning("nats", error=message)

    async def disconnected(self) -> None:
        log.warning("disconnected from nats")

    async def reconnected(self) -> None:
        self._last_error = ""
        log.info("connected to nats again")
