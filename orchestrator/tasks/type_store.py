"""Types that were registered at run time, in storage: a bucket of their own, all in memory.

The bucket outlives a factory reset.
"""

from google.protobuf.message import DecodeError
from structlog import get_logger

from mesh.bus import Bus, Stored
from mesh.errors import UnavailableError
from mesh.reasons import Reason
from mesh.tasks import SingleFlight
from orchestrator.tasks.types import RoleId, role_word
from ytcaption.v1 import task_pb2

log = get_logger(__name__)

MAX_RACES = 20


def key_of(role: RoleId, name: str) -> str:
    """The key of a registration."""
    return f"{role_word(role)}.{name}"


class TypeStore:
    """The registrations of all types; the last writer of one wins."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._bucket = bus.names.types_bucket
        self._root = f"$KV.{self._bucket}."
        self._sequence = 0
        self._records: dict[str, tuple[task_pb2.RegisteredType, int]] = {}
        self.catch_up = SingleFlight(self._read)
        """Reads every change acknowledged before the call, also of other replicas."""

    def all(self) -> list[task_pb2.RegisteredType]:
        """All registrations as last read, by role and name."""
        return [self._records[key][0] for key in sorted(self._records)]

    async def put(self, record: task_pb2.RegisteredType) -> None:
        """Stores a registration durably, in place of the one before."""
        key = key_of(record.role, record.type)
        for _ in range(MAX_RACES):
            there = await self._bus.get_key(key, self._bucket)
            last = there.sequence if there else 0
            revision = await self._bus.put_key(key, record.SerializeToString(), last, self._bucket)
            if revision is not None:
                self._records[key] = (record, revision)
                return
        raise UnavailableError(
            "the registration changes too often to be changed now",
            reason=Reason.STORAGE_UNAVAILABLE,
        )

    async def remove(self, role: RoleId, name: str) -> bool:
        """Removes a registration, in every replica; False if there was none."""
        key = key_of(role, name)
        there = await self._bus.get_key(key, self._bucket)
        if there is None:
            self._records.pop(key, None)
            return False
        await self._bus.publish(there.subject, b"", {"KV-Operation": "PURGE"}, repeatable=True)
        self._records.pop(key, None)
        return True

    async def _read(self) -> None:
        async for change in self._bus.read(f"KV_{self._bucket}", f"{self._root}>", self._sequence):
            self._take_in(change)
            self._sequence = change.sequence

    def _take_in(self, change: Stored) -> None:
        key = change.subject.removeprefix(self._root)
        known = self._records.get(key)
        if known is not None and known[1] >= change.sequence:  # our own write, or one before it
            return
        if change.deleted:
            self._records.pop(key, None)
            return
        try:
            record = task_pb2.RegisteredType.FromString(change.data)
        except DecodeError:
            log.warning("skip unreadable registration", key=key)
            return
        if key == key_of(record.role, record.type):
            self._records[key] = (record, change.sequence)
