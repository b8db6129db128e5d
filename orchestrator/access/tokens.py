"""Tokens in storage: records in a bucket of their own, all of them in memory.

The bucket outlives a factory reset. No call reads it: strangers who guess cost the broker nothing.
"""

from time import monotonic

from google.protobuf.message import DecodeError
from google.protobuf.timestamp import from_current_time
from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import NotFoundError, UnavailableError
from mesh.reasons import Reason
from mesh.tasks import SingleFlight
from ytcaption.v1 import token_pb2

log = get_logger(__name__)

MAX_RACES = 20


class TokenStore:
    """The records of all tokens, sessions and links; changed by compare-and-set."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._bucket = bus.names.tokens_bucket
        self._root = f"$KV.{self._bucket}."
        self._sequence = 0
        self._records: dict[str, tuple[token_pb2.TokenRecord, int]] = {}
        self._removed: dict[str, tuple[int, float]] = {}
        """The sequence of each removal, and when we read it."""
        self.catch_up = SingleFlight(self._read)
        """Reads every change acknowledged before the call, also of other replicas."""

    def find(self, token_id: str) -> token_pb2.TokenRecord | None:
        """The record as last read; None if there was none."""
        found = self._records.get(token_id)
        return found[0] if found else None

    def all(self) -> list[token_pb2.Token]:
        """All tokens as last read, newest first."""
        tokens = [record.token for record, _ in self._records.values()]
        return sorted(tokens, key=_age, reverse=True)

    async def add(self, token: token_pb2.Token, digest: bytes, id_token: str = "") -> None:
        """Stores a new token durably."""
        token.create_time.CopyFrom(from_current_time())
        record = token_pb2.TokenRecord(token=token, digest=digest, id_token=id_token)
        if not await self._put(record, 0):
            raise UnavailableError("the id is taken", reason=Reason.STORAGE_UNAVAILABLE)

    async def mark(self, token: token_pb2.Token) -> bool:
        """Stores a record that opens nothing; whether there was none with its id."""
        token.create_time.CopyFrom(from_current_time())
        return await self._put(token_pb2.TokenRecord(token=token), 0)

    async def revoke(self, token_id: str) -> token_pb2.Token:
        """Marks a token as revoked; one that is revoked already is returned as it is."""
        for _ in range(MAX_RACES):
            await self.catch_up()
            found = self._records.get(token_id)
            if found is None:
                raise NotFoundError(f"no token {token_id[:32]!r}", reason=Reason.TOKEN_NOT_FOUND)
            if found[0].token.HasField("revoke_time"):
                return found[0].token
            changed = token_pb2.TokenRecord()
            changed.CopyFrom(found[0])
            changed.token.revoke_time.CopyFrom(from_current_time())
            if await self._put(changed, found[1]):
                return changed.token
        raise UnavailableError(
            "the token changes too often to be revoked now", reason=Reason.STORAGE_UNAVAILABLE
        )

    async def use(self, token_id: str) -> None:
        """Notes that a token was used now; a change at the same time wins."""
        if (found := self._records.get(token_id)) is not None:
            changed = token_pb2.TokenRecord()
            changed.CopyFrom(found[0])
            changed.token.last_use_time.CopyFrom(from_current_time())
            await self._put(changed, found[1])

    async def remove(self, token_id: str) -> bool:
        """Removes a record; whether it was there and no other call was first."""
        for _ in range(MAX_RACES):
            await self.catch_up()
            found = self._records.get(token_id)
            if found is None:
                return False
            # An empty value, which no token has: compare-and-set, and other replicas read it. It
            # goes later.
            sequence = await self._bus.put_key(token_id, b"", found[1], self._bucket)
            if sequence is not None:
                self._take_out(token_id, sequence)
                return True
        raise UnavailableError(
            "the token changes too often to be removed now", reason=Reason.STORAGE_UNAVAILABLE
        )

    async def forget_removed(self, seconds: float) -> None:
        """Takes what is left of removals out of the bucket once they were read this long ago."""
        before = monotonic() - seconds
        for token_id, (sequence, read_at) in list(self._removed.items()):
            if read_at <= before:
                subject = f"{self._root}{token_id}"
                await self._bus.purge(f"KV_{self._bucket}", subject, until=sequence)
                del self._removed[token_id]

    async def _put(self, record: token_pb2.TokenRecord, last: int) -> bool:
        token_id = record.token.token_id
        revision = await self._bus.put_key(token_id, record.SerializeToString(), last, self._bucket)
        if revision is None:
            return False
        self._records[token_id] = (record, revision)
        return True

    async def _read(self) -> None:
        stream = f"KV_{self._bucket}"
        async for change in self._bus.read(stream, f"{self._root}>", self._sequence):
            self._apply(change.subject.removeprefix(self._root), change.data, change.sequence)
            self._sequence = change.sequence

    def _apply(self, token_id: str, data: bytes, sequence: int) -> None:
        known, removed = self._records.get(token_id), self._removed.get(token_id)
        if max(known[1] if known else 0, removed[0] if removed else 0) >= sequence:
            return  # our own write, or one before it
        try:
            record = token_pb2.TokenRecord.FromString(data)
        except DecodeError:
            log.warning("skip unreadable token", id=token_id)
            return
        if record.token.token_id == token_id:
            self._records[token_id] = (record, sequence)
        else:
            self._take_out(token_id, sequence)

    def _take_out(self, token_id: str, sequence: int) -> None:
        self._records.pop(token_id, None)
        self._removed[token_id] = (sequence, monotonic())


def _age(token: token_pb2.Token) -> tuple[int, int, str]:
    return token.create_time.seconds, token.create_time.nanos, token.token_id
