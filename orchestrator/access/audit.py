"""The audit: who changed what, from where, with which outcome, and who was refused.

Entries are written in the background, in the order in which calls ended. A factory reset leaves the
stream, and the broker deletes no message of it. Refusals of callers without a valid token are
limited, so that strangers cannot displace entries.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf

from google.protobuf.timestamp import from_current_time
from structlog import get_logger

from mesh.bus import Bus, Stored, outlast
from mesh.errors import ForbiddenError, LimitExceededError, MeshError
from mesh.identity import METHODS, Role
from mesh.reasons import Reason
from orchestrator.queue.paging import Page, stream_page
from ytcaption.v1 import audit_pb2

log = get_logger(__name__)

INTERRUPTED = "INTERRUPTED"
"""The caller or the server ended the call before its end."""
MAX_PENDING = 10_000
MAX_OBJECTS = 20
STRANGERS_BURST, STRANGERS_PER_SECOND = 100, 1.0
ALSO = frozenset(
    {
        "AdminService/ExportOwner",
        "AuthService/CreateLink",
        "AuthService/OpenLink",
        "AuthService/CreateSession",
        "AuthService/CompleteLogin",
        "AuthService/EndSessions",
    }
)
"""Recorded although a reader, or anyone, may make these calls."""
READS = frozenset(
    {
        "AdminService/GetStats",
        "AdminService/ListAudit",
        "AdminService/ListOwnerRetentions",
        "AuthService/ListTokens",
    }
)
"""Not recorded unless refused, although a reader may not make these calls."""


@dataclass(slots=True)
class _Notes:
    """What is found out while a call runs."""

    objects: list[str] = field(default_factory=list)
    subject: str = ""


_notes: ContextVar[_Notes | None] = ContextVar("audit_notes", default=None)


def about(object_id: str) -> None:
    """Notes that the call this code runs for is about that job, collection, letter or token."""
    notes = _notes.get()
    if notes is None or not object_id or object_id in notes.objects:
        return
    if len(notes.objects) < MAX_OBJECTS:
        notes.objects.append(object_id[:64])


def logged_in(subject: str) -> None:
    """Notes who makes the call this code runs for, if it began without a token."""
    if (notes := _notes.get()) is not None:
        notes.subject = subject


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Selects entries; an unset field matches all."""

    subject: str = ""
    start: datetime | None = None
    end: datetime | None = None

    def includes(self, entry: audit_pb2.AuditEntry) -> bool:
        """Whether the entry matches."""
        at = entry.time.ToDatetime(UTC)
        return (
            self.subject in ("", entry.subject)
            and (self.start is None or at >= self.start)
            and (self.end is None or at < self.end)
        )


class Audit:
    """Writes and lists entries."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._pending: asyncio.Queue[audit_pb2.AuditEntry] = asyncio.Queue(MAX_PENDING)
        self._allowed = float(STRANGERS_BURST)
        self._renewed = 0.0

    @contextmanager
    def recording(self, entry: audit_pb2.AuditEntry) -> Iterator[None]:
        """Records the block's call, if it is to be; its subject may be set meanwhile."""
        notes = _Notes()
        before = _notes.set(notes)
        error: MeshError | None = None
        try:
            yield
        except MeshError as raised:
            error, entry.reason = raised, raised.reason
            raise
        except asyncio.CancelledError:
            entry.reason = INTERRUPTED
            raise
        except Exception:
            entry.reason = Reason.INTERNAL
            raise
        finally:
            entry.subject = entry.subject or notes.subject
            if self._is_recorded(entry, error):
                entry.object_ids.extend(notes.objects)
                self._add(entry)
            _notes.reset(before)

    def _is_recorded(self, entry: audit_pb2.AuditEntry, error: MeshError | None) -> bool:
        if error is not None and not entry.subject:
            return self._takes_stranger()
        if isinstance(error, ForbiddenError):
            return True
        changes = METHODS.get(entry.method, Role.ADMIN) >= Role.SUBMITTER
        return (changes and entry.method not in READS) or entry.method in ALSO

    def _takes_stranger(self) -> bool:
        now = asyncio.get_running_loop().time()
        gained = (now - self._renewed) * STRANGERS_PER_SECOND
        self._allowed = min(STRANGERS_BURST, self._allowed + gained)
        self._renewed = now
        if self._allowed < 1:
            return False
        self._allowed -= 1
        return True

    def _add(self, entry: audit_pb2.AuditEntry) -> None:
        entry.time.CopyFrom(from_current_time())
        if self._pending.full():
            log.error("an entry of the audit is lost", method=entry.method, subject=entry.subject)
        else:
            self._pending.put_nowait(entry)

    def note_end(self, entry: audit_pb2.AuditEntry) -> None:
        """Records what the orchestrator finished by itself, on behalf of an earlier call."""
        self._add(entry)

    async def entries(self) -> AsyncIterator[audit_pb2.AuditEntry]:
        """Every entry, oldest first."""
        async for stored in self._bus.read(self._bus.names.audit_stream, self._bus.names.audit()):
            yield _entry(stored)

    async def run(self) -> None:
        """Writes entries; waits for a broker that is away."""
        try:
            while True:
                await self._write(await self._pending.get())
        finally:
            while not self._pending.empty():
                await self._write(self._pending.get_nowait())

    async def _write(self, entry: audit_pb2.AuditEntry) -> None:
        data, subject = entry.SerializeToString(), self._bus.names.audit()
        with suppress(LimitExceededError):  # a full disk stops nothing but the audit
            await outlast(lambda: self._bus.publish(subject, data), inf)

    async def page(self, size: int, token: str, query: AuditQuery) -> Page[audit_pb2.AuditEntry]:
        """Entries older than the token's, newest first."""
        return await stream_page(
            self._bus,
            self._bus.names.audit_stream,
            self._bus.names.audit(),
            size=size,
            token=token,
            read=_entry,
            wanted=query.includes,
        )


def _entry(stored: Stored) -> audit_pb2.AuditEntry:
    entry = audit_pb2.AuditEntry.FromString(stored.data)
    entry.sequence = stored.sequence
    return entry
