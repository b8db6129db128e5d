"""Records in the bucket: one a key, changed only by compare-and-set."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar
from uuid import UUID

from google.protobuf.message import DecodeError, Message
from nats.js.errors import KeyNotFoundError, KeyWrongLastSequenceError

from mesh.bus import Bus, storing
from mesh.errors import InternalError, NotFoundError, UnavailableError
from mesh.reasons import Reason

RecordT = TypeVar("RecordT", bound=Message)
MAX_RACES = 20


class UnreadableError(InternalError):
    """What the bucket holds under a key is no record."""


class ConflictError(Exception):
    """Somebody else changed the record first."""


@dataclass(slots=True)
class Held(ABC, Generic[RecordT]):
    """A record and the revision it was read or written at."""

    record: RecordT
    revision: int

    @property
    @abstractmethod
    def id(self) -> str:
        """What the record is about."""

    @abstractmethod
    def touch(self) -> None:
        """Notes that it changes now."""


HeldT = TypeVar("HeldT", bound=Held[Any])


class Records(ABC, Generic[HeldT]):
    """Reads and writes records of one kind."""

    root: ClassVar[str] = ""
    """What the keys begin with."""
    what: ClassVar[str]
    missing: ClassVar[Reason]

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    @abstractmethod
    def _read(self, data: bytes, revision: int) -> HeldT:
        """Raises DecodeError if it is no record."""

    async def _create(self, held: HeldT) -> HeldT:
        """Stores a new one durably."""
        held.touch()
        async with storing():
            revision = await self._bus.jobs.create(
                self.root + held.id, held.record.SerializeToString()
            )
        # nats-py hands back the whole acknowledgement here, unlike from update().
        held.revision = getattr(revision, "seq", revision)
        return held

    async def get(self, id_: str) -> HeldT:
        """The record with that id, or NotFoundError."""
        try:
            async with storing():
                entry = await self._bus.jobs.get(f"{self.root}{UUID(id_)}")
        except (KeyNotFoundError, ValueError) as error:
            raise NotFoundError(f"no {self.what} {id_[:64]!r}", reason=self.missing) from error
        try:
            return self._read(entry.value or b"", entry.revision or 0)
        except DecodeError as error:
            raise UnreadableError(
                f"the record of {self.what} {id_!r} cannot be read",
                reason=Reason.RECORD_UNREADABLE,
            ) from error

    async def save(self, held: HeldT) -> None:
        """Writes the record if nobody else did since it was read; else ConflictError."""
        held.touch()
        try:
            async with storing():
                saved = await self._bus.jobs.update(
                    self.root + held.id, held.record.SerializeToString(), last=held.revision
                )
        except KeyWrongLastSequenceError as error:
            raise ConflictError(held.id) from error
        held.revision = getattr(saved, "seq", saved)

    async def change(self, id_: str, mutate: Callable[[Any], bool]) -> HeldT:
        """Applies `mutate` to the newest record until it is stored, or says False: leave it."""
        for _ in range(MAX_RACES):
            held = await self.get(id_)
            if not mutate(held.record):
                return held
            try:
                await self.save(held)
            except ConflictError:
                continue
            return held
        raise UnavailableError(
            f"the {self.what} changes too fast to be changed", reason=Reason.STORAGE_UNAVAILABLE
        )

    async def remove(self, id_: str) -> None:
        """Forgets the record; only a tombstone that holds nothing stays."""
        async with storing():
            await self._bus.jobs.purge(self.root + id_)
