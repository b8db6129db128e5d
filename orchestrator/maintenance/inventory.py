"""The inventory of the object store: every stored file, also those whose job is gone."""

import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from nats.js.errors import NotFoundError

from mesh.bus import Bus, Stored, storing
from orchestrator.jobs.artifacts import names_of
from ytcaption.v1 import job_pb2


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One stored file."""

    job_id: str
    name: str
    size: int
    time: datetime
    nuid: str
    subject: str
    sequence: int


class Inventory:
    """Lists and removes stored files without reading job records."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        bucket = bus.names.artifacts_bucket
        self.stream = f"OBJ_{bucket}"
        self._names = f"$O.{bucket}.M."
        self._chunks = f"$O.{bucket}.C."

    async def files(self) -> AsyncIterator[StoredFile]:
        """Every complete file, oldest first."""
        async for stored in self._bus.read(self.stream, f"{self._names}*"):
            if (file := _file(stored)) is not None:
                yield file

    async def files_of(self, job: job_pb2.Job) -> list[StoredFile]:
        """The files DeleteJob removes."""
        found = []
        for name in names_of(job):
            coded = urlsafe_b64encode(f"{job.job_id}/{name}".encode()).decode()
            async for stored in self._bus.read(self.stream, f"{self._names}{coded}"):
                if (file := _file(stored)) is not None:
                    found.append(file)
        return found

    def chunks_of(self, file: StoredFile) -> str:
        """The subject of the file's chunks."""
        return f"{self._chunks}{file.nuid}"

    async def remove(self, file: StoredFile) -> None:
        """Removes this file; a newer file of the same name stays."""
        await self._bus.purge(self.stream, self.chunks_of(file))
        await self._bus.purge(self.stream, file.subject, until=file.sequence)

    async def chunk_groups(self) -> set[str]:
        """The ids of all groups of chunks, also of uploads that never became a file.

        The broker lists at most 100,000; later runs see the rest.
        """
        async with storing():
            info = await self._bus.jetstream.stream_info(
                self.stream, subjects_filter=f"{self._chunks}*"
            )
        return {subject.removeprefix(self._chunks) for subject in info.state.subjects or {}}

    async def remove_chunks(
        self, nuid: str, before: datetime, *, dry_run: bool = False
    ) -> int | None:
        """Removes a group unchanged since `before`; returns its bytes, or None if it changed."""
        subject = f"{self._chunks}{nuid}"
        try:
            async with storing():
                last = await self._bus.jetstream.get_last_msg(self.stream, subject)
        except NotFoundError:
            return None
        if last.time is None or last.time > before:
            return None
        size = 0
        async for chunk in self._bus.read(self.stream, subject, batch=4):
            size += len(chunk.data)
        if not dry_run:
            await self._bus.purge(self.stream, subject)
        return size


def _file(stored: Stored) -> StoredFile | None:
    """The file, or None for a deleted entry or a foreign name."""
    if not stored.data:
        return None
    info = json.loads(stored.data)
    job_id, slash, name = str(info.get("name", "")).partition("/")
    if info.get("deleted") or not slash:
        return None
    time = datetime.fromisoformat(info["mtime"])
    return StoredFile(
        job_id=job_id,
        name=name,
        size=int(info.get("size") or 0),
        time=time if time.tzinfo else time.replace(tzinfo=UTC),
        nuid=str(info["nuid"]),
        subject=stored.subject,
        sequence=stored.sequence,
    )
