"""What is stored about owners as such: a retention of their own, and erasures to be finished.

The bucket outlives a factory reset. Keys are digests: a name may hold what no key can.
"""

from collections.abc import Callable
from datetime import timedelta

from google.protobuf.duration import from_timedelta, to_timedelta
from google.protobuf.message import DecodeError
from structlog import get_logger

from mesh.bus import Bus
from mesh.errors import InvalidRequestError, UnavailableError
from mesh.reasons import Reason
from mesh.stores import owner_key
from orchestrator.access.audit import about
from orchestrator.access.login import MAX_LIFETIME, check_name
from ytcaption.v1 import owner_pb2

log = get_logger(__name__)

MAX_RACES = 20


def check_owner(owner: str) -> str:
    """The owner's name, if it can be the subject of a token; else raises."""
    check_name(owner, "owner")
    about(owner)
    return owner


class OwnerStore:
    """The records of owners that have any; changed by compare-and-set."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._bucket = bus.names.owners_bucket
        self._stream = f"KV_{self._bucket}"

    async def get(self, owner: str) -> owner_pb2.OwnerRecord:
        """The record of an owner; an empty one if there is none."""
        return (await self._read(owner))[0]

    async def _read(self, owner: str) -> tuple[owner_pb2.OwnerRecord, int]:
        stored = await self._bus.get_key(owner_key(owner), self._bucket)
        if stored is None:
            return owner_pb2.OwnerRecord(owner=owner), 0
        return owner_pb2.OwnerRecord.FromString(stored.data), stored.sequence

    async def all(self) -> list[owner_pb2.OwnerRecord]:
        """Every record, by name."""
        found = []
        async for stored in self._bus.read(self._stream, f"$KV.{self._bucket}.*"):
            try:
                record = owner_pb2.OwnerRecord.FromString(stored.data)
            except DecodeError:
                log.warning("skip unreadable owner", subject=stored.subject)
                continue
            if record.owner and not stored.deleted:
                found.append(record)
        return sorted(found, key=lambda record: record.owner)

    async def change(
        self, owner: str, mutate: Callable[[owner_pb2.OwnerRecord], bool]
    ) -> owner_pb2.OwnerRecord:
        """Applies `mutate` to the newest record until that is stored, or until it returns False.

        A record that says nothing is removed.
        """
        for _ in range(MAX_RACES):
            record, revision = await self._read(owner)
            if not mutate(record):
                return record
            if await self._store(record, revision):
                return record
        raise UnavailableError(
            "the owner changes too often to be changed now", reason=Reason.STORAGE_UNAVAILABLE
        )

    async def _store(self, record: owner_pb2.OwnerRecord, revision: int) -> bool:
        if record.HasField("retention") or record.HasField("erasure"):
            key, data = owner_key(record.owner), record.SerializeToString()
            return await self._bus.put_key(key, data, revision, self._bucket) is not None
        subject = f"$KV.{self._bucket}.{owner_key(record.owner)}"
        await self._bus.purge(self._stream, subject, until=revision)
        return await self._bus.get_key(owner_key(record.owner), self._bucket) is None

    async def set_retention(self, owner: str, age: timedelta | None) -> owner_pb2.OwnerRetention:
        """Sets how long the owner's ended work is kept; None: as the settings say."""
        if age is not None and not timedelta() <= age <= MAX_LIFETIME:
            raise InvalidRequestError("retention must be 0 to a hundred years")

        def mutate(record: owner_pb2.OwnerRecord) -> bool:
            if age is None:
                record.ClearField("retention")
            else:
                record.retention.CopyFrom(from_timedelta(age))
            return True

        return _retention_of(await self.change(check_owner(owner), mutate))

    async def retentions(self) -> list[owner_pb2.OwnerRetention]:
        """The owners with a retention of their own, by name."""
        return [_retention_of(one) for one in await self.all() if one.HasField("retention")]

    async def ages(self) -> dict[str, timedelta]:
        """How long the ended work of owners with a retention of their own is kept."""
        return {one.owner: to_timedelta(one.retention) for one in await self.retentions()}


def _retention_of(record: owner_pb2.OwnerRecord) -> owner_pb2.OwnerRetention:
    retention = record.retention if record.HasField("retention") else None
    return owner_pb2.OwnerRetention(owner=record.owner, retention=retention)
