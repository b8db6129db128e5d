"""The connection to NATS JetStream, and everything of ours that lives there."""

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
ANSWER_SECONDS = 5
CONNECT_SECONDS = 10
WRONG_LAST_SEQUENCE = (10071, 10164)
OUT_OF_ROOM = (10023, 10047, 10077)
"""Insufficient resources, storage exceeded, a stream's own limit."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One message read back from a stream."""

    sequence: int
    subject: str
    data: bytes
    deleted: bool
    """A key that was deleted or purged."""


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
        client = await _connect(url, name or "ytcaption")
        bus = cls(client, Names(prefix))
        try:
            async with storing():
                await bus._open(limits or Limits())
            yield bus
        finally:
            with suppress(NatsError, OSError):  # a broker that is gone needs no goodbye
                await client.close()

    async def _open(self, limits: Limits) -> None:
        await make_streams(self.jetstream, self.names, limits)
        self.jobs = await key_value(self.jetstream, self.names.jobs_bucket, limits)
        self.artifacts = await object_store(self.jetstream, self.names.artifacts_bucket, limits)

    async def publish(
        self, subject: str, data: bytes, headers: dict[str, str] | None = None
    ) -> int:
        """Stores a message and returns its sequence; a full or absent broker is a typed failure."""
        async with storing():
            return (await self.jetstream.publish(subject, data, headers=headers)).seq

    async def read(
        self,
        stream: str,
        subject: str,
        after: int = 0,
        *,
        batch: int = BATCH,
        patience_seconds: float = 0,
    ) -> AsyncIterator[Stored]:
        """Everything stored under a subject filter after a sequence, without making a consumer."""
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


async def _connect(url: str, name: str) -> Client:
    """Left to itself the client would try for ever, and say so four times a second."""
    client, narrator = Client(), _Narrator()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await client.connect(
                url.split(","),
                name=name,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.25,  # type: ignore[arg-type] # it only sleeps that long
                error_cb=narrator.error,
                disconnected_cb=narrator.disconnected,
                reconnected_cb=narrator.reconnected,
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
    if status:  # such as 503 while a stream is being recovered
        raise NatsError(f"status {status}: {headers.get('Description', '')}")
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


class _Narrator:
    """Says once what the client tries four times a second."""

    def __init__(self) -> None:
        self._said = ""

    async def error(self, error: Exception) -> None:
        words = str(error) or type(error).__name__
        if words != self._said:
            self._said = words
            log.warning("nats", error=words)

    async def disconnected(self) -> None:
        log.warning("disconnected from nats")

    async def reconnected(self) -> None:
        self._said = ""
        log.info("connected to nats again")
