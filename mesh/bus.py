"""The connection to NATS JetStream and access to our streams and stores."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from time import monotonic
from typing import Any, Self, TypeVar

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import StreamState
from nats.js.errors import APIError, NotFoundError
from nats.js.kv import KeyValue
from nats.js.object_store import ObjectStore
from structlog import get_logger

from mesh.answers import Answers, Request, current_patience, prompt
from mesh.credentials import login
from mesh.errors import LimitExceededError, UnavailableError
from mesh.reasons import Reason
from mesh.stores import OWNER_TAG, Limits, Names, key_value, make_streams, object_store
from mesh.tasks import SingleFlight
from mesh.tls import PLAIN, SYSTEM, ReloadingContext, Tls

log = get_logger(__name__)

T = TypeVar("T")

BATCH = 500
ANSWER_SECONDS = 5.0
"""A broker that has not answered a request after this long counts as unavailable."""
CONNECT_SECONDS = 10
REFUSALS, REFUSED_SECONDS = 20, 1.0
"""Logins in a row, four a second: servers of a cluster may get their users one after the other."""
WRONG_LAST_SEQUENCE = (10071, 10164)
STORAGE_EXCEEDED = (10023, 10047, 10077)
"""JetStream error codes: insufficient resources, storage exceeded, a stream's own limit."""
PASSING = (10005, 10058)
"""No suitable peers, as while brokers start; a stream that another replica creates just now."""
REPLICAS_UNSUPPORTED = 10074
REPLICA_SECONDS = 1.0
"""The leader is asked in place of a replica that has been silent for this long."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 1.0
PROOF_SECONDS = 1.25
"""A leader that acknowledges no write for this long has no quorum, as far as we know."""
BARRIER = "quorum.barrier"
"""The key that a leader writes to prove its quorum: always a tombstone, so that readers skip it."""
IN_FLIGHT_SECONDS = 0.02
MAX_IN_FLIGHT = 100


@dataclass(frozen=True, slots=True)
class Stored:
    """One message read back from a stream."""

    sequence: int
    subject: str
    data: bytes
    deleted: bool
    """Whether the message marks a deleted or purged key."""
    tag: str = ""
    """Stands for its owner's name; "" if it was stored without one."""


class Bus:
    """An open connection; all streams and stores exist.

    Reads are current: replicas serve batches, and the stream's leader confirms where they end.
    That a key is absent is said only by a leader that proved its quorum.
    """

    def __init__(
        self, client: Client, names: Names, *, answer_seconds: float = ANSWER_SECONDS
    ) -> None:
        self.client = client
        self.names = names
        self._answer_seconds = answer_seconds
        self._answers = Answers()
        self._replicated = False
        self._quorum = SingleFlight(self._prove_quorum)
        self.jetstream: JetStreamContext = client.jetstream(timeout=answer_seconds)
        self.jobs: KeyValue
        self.artifacts: ObjectStore
        self._connection: _Connection

    @classmethod
    @asynccontextmanager
    async def connected(  # noqa: PLR0913 # where, who, and what exists there
        cls,
        url: str,
        *,
        credentials: str = "",
        prefix: str = "YTC",
        limits: Limits | None = None,
        name: str = "",
        answer_seconds: float = ANSWER_SECONDS,
        tls: Tls = PLAIN,
    ) -> AsyncIterator[Self]:
        """Connects, creates missing streams and stores, and reconnects until the block ends.

        A URL that begins with tls:// is never connected to in plain text.
        """
        connection = _Connection(without_login(url), credentials)
        client = await _connect(url, name or "ytcaption", connection, tls)
        bus = cls(client, Names(prefix), answer_seconds=answer_seconds)
        bus._connection = connection
        try:
            await outlast(partial(bus._open, limits or Limits()), inf)
            yield bus
        finally:
            with suppress(NatsError, OSError):  # the broker may be gone
                await client.close()

    async def _open(self, limits: Limits) -> None:
        """Creates what is missing; streams without a leader are waited for, as in an election."""
        async with storing():
            await make_streams(self.jetstream, self.names, limits)
            self.jobs = await key_value(self.jetstream, self.names.jobs_bucket, limits, share=0.08)
            await key_value(self.jetstream, self.names.tokens_bucket, limits)
            await key_value(self.jetstream, self.names.owners_bucket, limits)
            await key_value(self.jetstream, self.names.quotas_bucket, limits)
            await key_value(self.jetstream, self.names.types_bucket, limits)
            self.artifacts = await object_store(self.jetstream, self.names.artifacts_bucket, limits)
            records = await self.jetstream.stream_info(self._place_of(BARRIER)[0])
            self._replicated = (records.config.num_replicas or 1) > 1

    async def until_refused(self) -> None:
        """Raises once no broker accepts our login any more, as when a key was replaced."""
        while self._connection.refusals < REFUSALS:  # noqa: ASYNC110 # checked now and then
            await asyncio.sleep(REFUSED_SECONDS)
        raise self._connection.refused()

    async def publish(
        self,
        subject: str,
        data: bytes,
        headers: dict[str, str] | None = None,
        *,
        repeatable: bool = False,
    ) -> int:
        """Stores a message and returns its sequence; a full or absent broker raises MeshError.

        `repeatable`: the store refuses a second copy, so a lost request may be sent again.
        """
        send = partial(self.jetstream.publish, subject, data, headers=headers)
        return (await self._ask(_write_to(subject), send, repeatable=repeatable)).seq

    async def _ask(self, kind: str, request: Request[T], *, repeatable: bool) -> T:
        """Waits for an answer; leaves a server that has not answered this kind for a while."""
        began = monotonic()
        try:
            async with storing():
                return await self._answers.to(kind, request, repeatable=repeatable)
        except UnavailableError:
            if self._answers.must_leave(kind, began, len(self.client.servers)):
                # It may be frozen, or cut off from its peers.
                log.warning("nats does not answer; trying another server")
                await self.client.force_reconnect()
            raise

    async def publish_fenced(  # noqa: PLR0913 # a message, and its fence
        self,
        stream: str,
        subject: str,
        data: bytes,
        last: int,
        *,
        fence: str = "",
        message_id: str = "",
        tag: str = "",
    ) -> int | None:
        """Stores a message if `last` is the newest sequence of the fence, by default its subject.

        Returns its sequence; None if another writer was first, whose message can be read by then.
        """
        headers = {
            "Nats-Expected-Last-Subject-Sequence": str(last),
            "Nats-Expected-Last-Subject-Sequence-Subject": fence,
            "Nats-Msg-Id": message_id,
            OWNER_TAG: tag,
        }
        headers = {name: value for name, value in headers.items() if value}
        patience = current_patience()
        for _ in range(MAX_IN_FLIGHT):
            try:
                return await self.publish(subject, data, headers, repeatable=True)
            except APIError as error:
                if error.err_code not in WRONG_LAST_SEQUENCE:
                    raise
            there = await self.newest(stream, fence or subject)
            if (there.sequence if there else 0) != last:
                if there is None or patience is None:
                    return None
                # It may be ours: a prompt request that was lost is sent again.
                return there.sequence if (there.subject, there.data) == (subject, data) else None
            # The other message is on its way to the replicas, and may not arrive.
            await asyncio.sleep(IN_FLIGHT_SECONDS)
            if patience is not None:
                patience.left -= IN_FLIGHT_SECONDS
                if patience.over:
                    break
        raise UnavailableError(
            "another write is not settled yet", reason=Reason.STORAGE_UNAVAILABLE
        )

    async def newest(self, stream: str, subject: str) -> Stored | None:
        """The newest message of a subject as the stream's leader knows it, or None."""
        return await self._from_leader(stream, subject=subject)

    async def _from_leader(self, stream: str, **which: Any) -> Stored | None:
        try:
            ask = partial(self.jetstream.get_msg, stream, **which)
            found = await self._ask(f"read {stream}", ask, repeatable=True)
        except NotFoundError:
            return None
        headers = found.headers or {}
        deleted, tag = "KV-Operation" in headers, headers.get(OWNER_TAG, "")
        return Stored(found.seq or 0, found.subject or "", found.data or b"", deleted, tag)

    async def get_key(self, key: str, bucket: str = "") -> Stored | None:
        """The value of a key of a bucket, by default that of the jobs, or None.

        A leader that was cut off answers reads until it notices, so it proves its quorum before
        None is returned.
        """
        place = self._place_of(key, bucket)
        found = await self.newest(*place)
        if self._replicated and (found is None or found.deleted):
            await self._confirm_quorum()
            found = await self.newest(*place)
        return None if found is None or found.deleted else found

    async def _confirm_quorum(self) -> None:
        """Returns after a proof that began after this call; all that wait share it."""
        kind = _write_to(self._place_of(BARRIER)[1])
        async with storing(), asyncio.timeout(self._answer_seconds):
            await self._answers.while_moving(kind, self._quorum)

    async def _prove_quorum(self) -> None:
        """Writes to the bucket: only a leader with a quorum can acknowledge that."""
        stream, subject = self._place_of(BARRIER)
        try:
            # Promptly, since all that wait share it: one that is lost would hold them up.
            tombstone = {"KV-Operation": "DEL"}
            with prompt(PROOF_SECONDS, alone=True):
                await self.publish(subject, b"", tombstone, repeatable=True)
        except LimitExceededError:
            # A full bucket. A purge needs the quorum, too, and no room; but it reads the bucket.
            await self.purge(stream, subject)

    async def put_key(self, key: str, data: bytes, last: int, bucket: str = "") -> int | None:
        """Stores a value if `last` is the key's revision, 0 for a new key; returns the new one.

        None if another writer was first.
        """
        stream, subject = self._place_of(key, bucket)
        revision = await self.publish_fenced(stream, subject, data, last)
        if revision is None and not last:
            there = await self.newest(stream, subject)
            if there is not None and there.deleted:
                revision = await self.publish_fenced(stream, subject, data, there.sequence)
        return revision

    def _place_of(self, key: str, bucket: str = "") -> tuple[str, str]:
        bucket = bucket or self.names.jobs_bucket
        return f"KV_{bucket}", f"$KV.{bucket}.{key}"

    async def purge(self, stream: str, subject: str, *, until: int | None = None) -> None:
        """Removes the messages under a subject filter: all, or those up to a sequence."""
        seq = None if until is None else until + 1
        async with storing():
            await self.jetstream.purge_stream(stream, subject=subject, seq=seq)

    async def erase(self, stream: str, sequence: int, *, overwrite: bool = True) -> bool:
        """Removes one message, and overwrites its bytes on disk; False if it is not there.

        A purge, or a newer value of a key, only takes a message out of the broker's index: its
        bytes stay until the file they are in is compacted.
        """
        request = {"seq": sequence, "no_erase": not overwrite}
        subject = f"$JS.API.STREAM.MSG.DELETE.{stream}"
        async with storing():
            answer = await self.client.request(
                subject, json.dumps(request).encode(), timeout=self._answer_seconds
            )
            said = json.loads(answer.data)
            error = said.get("error")
            if error and not str(error["description"]).endswith("found"):  # in two wordings
                raise APIError.from_error(error)
        return not error

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
        """Everything stored under a subject filter after a sequence; creates no consumer.

        Any replica serves a batch: it may lag, or not answer at all. So a batch that is not full
        ends nothing: the leader confirms the end, or has the next message.
        """
        more = not after  # later there is mostly nothing new, which the leader knows at once
        while True:
            found = await self._batch(stream, subject, after + 1, batch) if more else []
            for stored in found:
                yield stored
                after = stored.sequence
            if len(found) < batch:
                ask = partial(self._from_leader, stream, seq=after + 1, subject=subject, next=True)
                if (missed := await outlast(ask, patience_seconds)) is None:
                    return
                yield missed
                after = missed.sequence
            more = True

    async def _batch(self, stream: str, subject: str, sequence: int, batch: int) -> list[Stored]:
        """What one replica has from a sequence on, or the beginning of it."""
        request = {"seq": sequence, "next_by_subj": subject, "batch": batch}
        inbox = self.client.new_inbox()
        found: list[Stored] = []
        answers: asyncio.Queue[Msg] = asyncio.Queue()
        # Not next_msg(): its wait_for may swallow a cancellation.
        with suppress(NatsError, TimeoutError, OSError):
            async with self.subscribed(inbox, answers.put):
                await self.client.publish(
                    f"$JS.API.DIRECT.GET.{stream}", json.dumps(request).encode(), reply=inbox
                )
                while True:
                    async with asyncio.timeout(REPLICA_SECONDS):
                        stored = _stored(await answers.get())
                    if stored is None:
                        break
                    found.append(stored)
        return found


class _Client(Client):
    """Goes on reading after a flush that was cancelled or took too long.

    nats-py (2.16) sets the result of that ping all the same, which raises and ends its read loop:
    the connection stays up, and no answer arrives on it any more.
    """

    async def _process_pong(self) -> None:
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()


class _EncryptedClient(_Client):
    """Refuses brokers that do not offer TLS; the library would go on in plain text."""

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and not info.get("tls_required"):
            raise NatsError("the broker offers no TLS")
        await super()._process_info(info, initial_connection)


def without_login(url: str) -> str:
    """The addresses of brokers as they may be shown: without user and password."""
    return re.sub(r"(?<=//)[^/,]*@", "", url)


async def _connect(url: str, name: str, connection: "_Connection", tls: Tls) -> Client:
    """Connects with a deadline; the client alone would retry without end and log every attempt."""
    encrypted = "tls://" in url
    client: Client = _EncryptedClient() if encrypted else _Client()
    credentials = login(connection.credentials)
    trusted = tls if tls.ca else replace(tls, ca=SYSTEM)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await client.connect(
                url.split(","),
                tls=ReloadingContext.for_client(trusted) if encrypted else None,
                name=name,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.25,  # type: ignore[arg-type] # it only sleeps that long
                error_cb=connection.error,
                disconnected_cb=connection.disconnected,
                reconnected_cb=connection.reconnected,
                connect_timeout=5,
                **credentials,
            )
        connection.established = True
        # Round robin from here on: a server that was left must not be the next one again.
        client.options["dont_randomize"] = True
    except (NatsError, TimeoutError, OSError) as error:
        raise UnavailableError(
            f"no NATS server answers at {connection.url}", reason=Reason.STORAGE_UNAVAILABLE
        ) from error
    except UnavailableError:
        await client.close()
        raise
    return client


def _write_to(subject: str) -> str:
    """The kind of a write: each of our streams has subjects of its own with one beginning."""
    return "write " + ".".join(subject.split(".", 2)[:2])


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
        tag=headers.get(OWNER_TAG, ""),
    )


@asynccontextmanager
async def storing() -> AsyncIterator[None]:
    """Maps nats-py's exceptions to MeshError; missing items and revision conflicts pass through."""
    try:
        yield
    except NotFoundError:
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
    give_up, pause = monotonic() + seconds, FIRST_PAUSE_SECONDS
    while True:
        try:
            return await act()
        except UnavailableError as error:
            if monotonic() > give_up or _is_refusal(error):
                raise
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, LONGEST_PAUSE_SECONDS)


def _is_refusal(error: UnavailableError) -> bool:
    """Whether the broker works and refused, as it does with more replicas than it has servers."""
    cause = error.__cause__
    if not isinstance(cause, APIError) or cause.err_code in PASSING:
        return False
    return cause.err_code == REPLICAS_UNSUPPORTED or (cause.code or 0) // 100 == 4


@dataclass(slots=True)
class _Connection:
    """Logs each connection error once, and counts refusals; the client reports four a second."""

    url: str
    credentials: str
    established: bool = False
    refusals: int = 0
    """Logins that were refused since we were connected."""
    _last_error: str = ""

    def refused(self) -> UnavailableError:
        login = f"the credentials in {self.credentials}" if self.credentials else "our login"
        return UnavailableError(
            f"NATS at {self.url} refuses {login}", reason=Reason.STORAGE_FORBIDDEN
        )

    async def error(self, error: Exception) -> None:
        """Ends a first connection that is refused: the client would try again without end."""
        message = str(error) or type(error).__name__
        self.refusals += "authorization violation" in message.lower()
        if self.refusals and not self.established:
            raise self.refused() from error
        if message != self._last_error:
            self._last_error = message
            log.warning("nats", error=message)

    async def disconnected(self) -> None:
        log.warning("disconnected from nats")

    async def reconnected(self) -> None:
        self._last_error, self.refusals = "", 0
        log.info("connected to nats again")
