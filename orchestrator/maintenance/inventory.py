"""What lies in the object store, whoever put it there and whether or not its job still is."""

import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from nats.js.errors import NotFoundError

from mesh.bus import Bus, Stored, storing
from orchestrator.artifacts import names_of
from ytcaption.v1 import job_pb2


@dataclass(frozen=True, slots=True)
class File:
    """One stored file."""

    job_id: str
    name: str
    size: int
    time: datetime
    nuid: str
    subject: str
    sequence: int


class Shelves:
    """Lists and removes stored files without asking any job."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        bucket = bus.names.artifacts_bucket
        self._stream = f"OBJ_{bucket}"
        self._names = f"$O.{bucket}.M."
        self._chunks = f"$O.{bucket}.C."

    async def files(self) -> AsyncIterator[File]:
        """Every whole file, the one stored first comes first."""
        async for stored in self._bus.read(self._stream, f"{self._names}*"):
            file = _file(stored)
            if file is not None:
                yield file

    async def files_of(self, job: job_pb2.Job) -> list[File]:
        """The files DeleteJob would remove."""
        found = []
        for name in names_of(job):
            coded = urlsafe_b64encode(f"{job.job_id}/{name}".encode()).decode()
            async for stored in self._bus.read(self._stream, f"{self._names}{coded}"):
                file = _file(stored)
                found += [file] if file is not None else []
        return found

    async def remove(self, file: File) -> None:
        """Removes this file; one stored under the same name since then stays."""
        async with storing():
            await self._bus.jetstream.purge_stream(
                self._stream, subject=f"{self._chunks}{file.nuid}"
            )
            await self._bus.jetstream.purge_stream(
                self._stream, subject=file.subject, seq=file.sequence + 1
            )

    async def piles(self) -> set[str]:
        """The ids under which chunks lie, whether or not they ever became a file.

        The broker names at most 100,000 of them; the rest are looked at when those are gone.
        """
        async with storing():
            info = await self._bus.jetstream.stream_info(
                self._stream, subjects_filter=f"{self._chunks}*"
            )
        return {subject.removeprefix(self._chunks) for subject in info.state.subjects or {}}

    async def remove_pile(
        self, nuid: str, before: datetime, *, dry_run: bool = False
    ) -> int | None:
        """Removes chunks nothing was added to since `before`; their bytes, or None if it was."""
        subject = f"{self._chunks}{nuid}"
        try:
            async with storing():
                last = await self._bus.jetstream.get_last_msg(self._stream, subject)
        except NotFoundError:
            return None
        if last.time is None or last.time > before:
            return None
        size = 0
        async for chunk in self._bus.read(self._stream, subject, batch=4):
            size += len(chunk.data)
        if not dry_run:
            async with storing():
                await self._bus.jetstream.purge_stream(self._stream, subject=subject)
        return size


def _file(stored: Stored) -> File | None:
    """None for what the store calls deleted, and for what is none of ours."""
    if not stored.data:
        return None
    info = json.loads(stored.data)
    job_id, slash, name = str(info.get("name", "")).partition("/")
    if info.get("deleted") or not slash:
        return None
    time = datetime.fromisoformat(info["mtime"])
    return File(
        job_id=job_id,
        name=name,
        size=int(info.get("size") or 0),
        time=time if time.tzinfo else time.replace(tzinfo=UTC),
        nuid=str(info["nuid"]),
        subject=stored.subject,
        sequence=stored.sequence,
    )
