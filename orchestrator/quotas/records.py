"""What is stored of quotas: one record for each owner, changed by compare-and-set.

The bucket outlives a factory reset. All records are in memory, so a mesh without limits pays no
request for them.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable

from google.protobuf.message import DecodeError
from structlog import get_logger

from mesh.bus import Bus, Stored
from mesh.errors import UnavailableError
from mesh.reasons import Reason
from mesh.stores import is_filler, owner_key
from mesh.tasks import SingleFlight
from ytcaption.v1 import quota_pb2 as pb

log = get_logger(__name__)

MAX_RACES = 100
LONGEST_PAUSE_SECONDS = 0.05

Change = Callable[[pb.QuotaRecord], Awaitable[bool]]
"""Changes the newest record; False if nothing is to be stored. Called again after a race."""


class QuotaStore:
    """The records of all owners."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._bucket = bus.names.quotas_bucket
        self._sequence = 0
        self._records: dict[str, pb.QuotaRecord] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self.catch_up = SingleFlight(self._read)
        """Reads every change acknowledged before the call, also of other replicas."""

    def find(self, owner: str) -> pb.QuotaRecord:
        """The record as last read; empty if there was none. Never changed by its readers."""
        return self._records.get(owner) or pb.QuotaRecord(owner=owner)

    async def newest(self, owner: str) -> pb.QuotaRecord:
        """The record as it is stored now."""
        return (await self._newest(owner))[0]

    async def change(self, owner: str, change: Change) -> None:
        """Stores the newest record, changed; what other replicas store meanwhile is not lost."""
        # Calls of one replica wait for each other; they would only race.
        async with self._turns.setdefault(owner, asyncio.Lock()):
            for _ in range(MAX_RACES):
                record, revision = await self._newest(owner)
                if not await change(record):
                    return
                data = record.SerializeToString()
                stored = await self._bus.put_key(owner_key(owner), data, revision, self._bucket)
                if stored is not None:
                    self._records[owner] = record
                    return
                await asyncio.sleep(random.uniform(0, LONGEST_PAUSE_SECONDS))  # noqa: S311
        raise UnavailableError(
            "the quota changes too often to be changed now", reason=Reason.STORAGE_UNAVAILABLE
        )

    async def forget(self, owner: str) -> bool:
        """Removes the record, in every replica; False if there was none."""
        stored = await self._bus.get_key(owner_key(owner), self._bucket)
        self._records.pop(owner, None)
        if stored is None:
            return False
        await self._bus.publish(stored.subject, b"", {"KV-Operation": "PURGE"})
        return True

    async def _newest(self, owner: str) -> tuple[pb.QuotaRecord, int]:
        stored = await self._bus.get_key(owner_key(owner), self._bucket)
        if stored is None:
            return pb.QuotaRecord(owner=owner), 0
        return _parsed(stored.data) or pb.QuotaRecord(owner=owner), stored.sequence

    async def _read(self) -> None:
        subject = f"$KV.{self._bucket}.>"
        async for change in self._bus.read(f"KV_{self._bucket}", subject, self._sequence):
            self._take_in(change)
            self._sequence = change.sequence

    def _take_in(self, change: Stored) -> None:
        if change.deleted:
            gone = [owner for owner in self._records if change.subject.endswith(owner_key(owner))]
            for owner in gone:
                del self._records[owner]
        elif not is_filler(change.subject) and (record := _parsed(change.data)) is not None:
            self._records[record.owner] = record


def _parsed(data: bytes) -> pb.QuotaRecord | None:
    try:
        return pb.QuotaRecord.FromString(data)
    except DecodeError:
        log.warning("skip unreadable quota")
        return None
