"""Export: everything stored about one owner as one zip, written while it is sent.

Only what is sent next is in memory. Each file's SHA-256 is in `manifest.json`, the last file.
Secrets are not in it: tokens are stored as digests, which are left out, and the queries of webhook
addresses, which receivers use as passwords, are replaced.
"""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from typing import Any, TypeVar
from urllib.parse import urlsplit

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError, Message

from captions.formats import FORMATS
from mesh.errors import ForbiddenError, MeshError, NotFoundError
from mesh.frames import framed
from mesh.identity import Role, current
from mesh.messages import enum_name
from mesh.reasons import Reason
from orchestrator.access.audit import Audit, about
from orchestrator.access.login import Login
from orchestrator.collections.index import CollectionIndex
from orchestrator.jobs.artifacts import TRANSCRIPT, UPLOAD, names_of
from orchestrator.jobs.caption_files import CaptionReader
from orchestrator.jobs.index import JobIndex
from orchestrator.jobs.storage import JobStorage
from orchestrator.maintenance.belongings import Belongings, Owned
from orchestrator.maintenance.owners import OwnerStore, check_owner
from orchestrator.quotas.records import QuotaStore
from orchestrator.tasks.storage import TaskStorage
from reports.archive import safe
from reports.zip_stream import ZipStream
from ytcaption.v1 import (
    admin_service_pb2,
    audit_pb2,
    job_pb2,
    media_pb2,
    webhook_pb2,
)

MEDIA_TYPE = "application/zip"
MANIFEST = "manifest.json"
LEFT_OUT = "REDACTED"

OwnedT = TypeVar("OwnedT", bound=Owned)


@dataclass(slots=True)
class ExportProgress:
    """Jobs and collections that are in the zip, and in all."""

    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Export:
    """One owner's zip, which is made as its frames are read."""

    file_name: str
    frames: AsyncGenerator[bytes, None]
    progress: ExportProgress


@dataclass(frozen=True, slots=True)
class OwnerExports:
    """Exports owners."""

    storage: JobStorage
    index: JobIndex
    collections: CollectionIndex
    captions: CaptionReader
    login: Login
    owners: OwnerStore
    quotas: QuotaStore
    audit: Audit
    tasks: TaskStorage

    async def export(self, owner: str) -> Export:
        """The zip of an owner, by default the caller; another's is only for admins."""
        caller = current()
        if owner and owner != caller.subject and caller.role < Role.ADMIN:
            raise ForbiddenError(
                "only the role admin may export another owner", reason=Reason.ROLE_REQUIRED
            )
        owner = check_owner(owner) if owner else caller.subject
        about(owner)
        jobs = await self.index.owned(owner)
        collections = await self.collections.owned(owner)
        progress = ExportProgress(0, len(jobs) + len(collections))
        now = datetime.now(UTC)
        written = _Archive(self, owner, now, progress)
        name = safe(owner) or "all"
        return Export(
            f"ytcaption {name} {now:%Y-%m-%d}.zip",
            framed(written.parts(jobs, collections)),
            progress,
        )


@dataclass(slots=True)
class _Archive:
    """Writes one zip."""

    of: OwnerExports
    owner: str
    time: datetime
    progress: ExportProgress
    files: list[dict[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    zip: ZipStream = field(init=False)

    def __post_init__(self) -> None:
        self.zip = ZipStream(self.time)

    async def parts(self, jobs: list[str], collections: list[str]) -> AsyncGenerator[bytes, None]:
        """The bytes of the zip as they become ready."""
        for job_id in jobs:
            async for part in self._job(job_id):
                yield part
            self.progress.done += 1
        for collection_id in collections:
            async for part in self._collection(collection_id):
                yield part
            self.progress.done += 1
        ids = {*jobs, *collections}
        for name, rows in self._lists(ids).items():
            async for part in self._lines(name, rows):
                yield part
        manifest = {
            "owner": self.owner,
            "export_time": self.time.isoformat(),
            "version": version("ytcaption"),
            "jobs": len(jobs),
            "collections": len(collections),
            "files": self.files,
            "missing": self.missing,
        }
        self.zip.put(MANIFEST, _json(manifest))
        yield self.zip.end()

    def _lists(self, ids: set[str]) -> dict[str, AsyncIterator[dict[str, Any]]]:
        names, belongings = self.of.storage.bus.names, Belongings(self.owner, ids)
        return {
            "webhooks-pending.jsonl": self._owned(
                names.webhooks_stream,
                names.webhook("*"),
                webhook_pb2.WebhookItem.FromString,
                _of_item,
                belongings,
            ),
            "webhook-deliveries.jsonl": self._owned(
                names.deliveries_stream,
                names.delivery("*"),
                admin_service_pb2.WebhookDelivery.FromString,
                _shown,
                belongings,
            ),
            "dead-letters.jsonl": self._owned(
                names.dead_letter_stream,
                names.dead_letter("*"),
                job_pb2.DeadLetter.FromString,
                _of_letter,
                belongings,
            ),
            "published-events.jsonl": self._published(belongings),
            "tokens.jsonl": self._tokens(),
            "audit.jsonl": self._audit(ids),
            "owner.jsonl": self._settings(),
        }

    async def _job(self, job_id: str) -> AsyncGenerator[bytes, None]:
        folder = f"jobs/{job_id}"
        try:
            record = (await self.of.storage.jobs.get(job_id)).record
        except MeshError as error:  # deleted just now, or unreadable
            self.missing.append(f"{folder}: {error}")
            return
        job = record.job
        yield self._put(f"{folder}/job.json", _json(_shown(job)))
        async for part in self._events(folder, job_id):
            yield part
        for name, content in await self._captions(job):
            yield self._put(f"{folder}/{name}", content)
        for name in names_of(job):
            async for part in self._file(folder, job, name):
                yield part

    async def _captions(self, job: job_pb2.Job) -> list[tuple[str, bytes]]:
        """The transcript and the usual caption files, if anything was heard."""
        found: list[tuple[str, bytes]] = []
        artifacts, captions = self.of.storage.artifacts, self.of.captions
        with suppress(NotFoundError):
            transcript = await artifacts.transcript(job.job_id)
            found.append(("transcript.json", _json(_dict(transcript))))
        if not job.segment_count and not found:
            return found
        enum = media_pb2.CaptionFormat.DESCRIPTOR
        for value in enum.values:
            entry = FORMATS.get(enum_name(enum, value.number) if value.number else "")
            if entry is None or not entry.usual:
                continue
            number = media_pb2.CaptionFormat.Value(value.name)
            tracks = await captions.tracks(job, number)
            found.append((f"captions.{entry.suffix}", tracks.spoken.content))
            if (other := tracks.translated) is not None:
                found.append((f"captions.{other.language}.{entry.suffix}", other.content))
        return found

    async def _file(self, folder: str, job: job_pb2.Job, name: str) -> AsyncGenerator[bytes, None]:
        """A stored file, byte for byte; the transcript is there as JSON."""
        if name == TRANSCRIPT:
            return
        shown = name
        if name == UPLOAD:
            shown = f"{UPLOAD} {safe(job.source.upload.file_name)}".strip()
        async for part in self._stored(f"{folder}/{shown}", job.job_id, name):
            yield part

    async def _stored(self, path: str, id_: str, name: str) -> AsyncGenerator[bytes, None]:
        """A file of a job or a task, if it has one of that name."""
        artifacts, digest, size = self.of.storage.artifacts, sha256(), 0
        if await artifacts.size(id_, name) is None:
            return
        with self.zip.file(path, compress=False) as file:
            try:
                async for piece in artifacts.read(id_, name):
                    file.write(piece)
                    digest.update(piece)
                    size += len(piece)
                    yield self.zip.drain()
            except NotFoundError as error:
                self.missing.append(f"{path}: {error}")
        self._note(path, size, digest.hexdigest())
        yield self.zip.drain()

    async def _events(self, folder: str, id_: str) -> AsyncGenerator[bytes, None]:
        async def rows() -> AsyncIterator[dict[str, Any]]:
            async for sequence, event in self.of.storage.event_logs.events(id_):
                yield {"sequence": sequence, **_shown(event)}

        async for part in self._lines(f"{folder}/events.jsonl", rows()):
            yield part

    async def _collection(self, collection_id: str) -> AsyncGenerator[bytes, None]:
        folder = f"collections/{collection_id}"
        record = self.of.collections.record(collection_id)
        if record is None:
            self.missing.append(f"{folder}: deleted meanwhile")
            return
        yield self._put(f"{folder}/collection.json", _json(_shown(record.collection)))
        async for part in self._events(folder, collection_id):
            yield part
        for task_id in await self.of.tasks.index.of(collection_id):
            async for part in self._task(f"{folder}/tasks/{task_id}", task_id):
                yield part

    async def _task(self, folder: str, task_id: str) -> AsyncGenerator[bytes, None]:
        """A call of a collector or an executor: its events, which hold documents, and its files."""
        record = self.of.tasks.index.record(task_id)
        if record is None:
            self.missing.append(f"{folder}: deleted meanwhile")
            return
        yield self._put(f"{folder}/task.json", _json(_shown(record.task)))
        async for part in self._events(folder, task_id):
            yield part
        for name in record.stored_names:
            async for part in self._stored(f"{folder}/{name}", task_id, name):
                yield part

    async def _lines(
        self, path: str, rows: AsyncIterator[dict[str, Any]]
    ) -> AsyncGenerator[bytes, None]:
        """A file with one JSON object a line."""
        digest, size = sha256(), 0
        with self.zip.file(path, compress=True) as file:
            async for row in rows:
                line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
                file.write(line)
                digest.update(line)
                size += len(line)
                if part := self.zip.drain():
                    yield part
        self._note(path, size, digest.hexdigest())
        yield self.zip.drain()

    def _put(self, path: str, content: bytes) -> bytes:
        self.zip.put(path, content)
        self._note(path, len(content), sha256(content).hexdigest())
        return self.zip.drain()

    def _note(self, path: str, size: int, digest: str) -> None:
        self.files.append({"name": path, "size_bytes": size, "sha256": digest})

    async def _owned(
        self,
        stream: str,
        subject: str,
        kind: Callable[[bytes], OwnedT],
        shown: Callable[[OwnedT], dict[str, Any]],
        belongings: Belongings,
    ) -> AsyncIterator[dict[str, Any]]:
        async for stored in self.of.storage.bus.read(stream, subject):
            with suppress(DecodeError):
                found = kind(stored.data)
                if belongings.include(found):
                    yield shown(found)

    async def _published(self, belongings: Belongings) -> AsyncIterator[dict[str, Any]]:
        names = self.of.storage.bus.names
        async for stored in self.of.storage.bus.read(names.outbox_stream, names.outgoing("*")):
            if belongings.include_published(stored):
                yield json.loads(stored.data)

    async def _tokens(self) -> AsyncIterator[dict[str, Any]]:
        for token in await self.of.login.of_subject(self.owner):
            yield _dict(token)

    async def _audit(self, ids: set[str]) -> AsyncIterator[dict[str, Any]]:
        """What the owner did, and what others did with what is the owner's."""
        wanted = ids | ({self.owner} if self.owner else set())
        async for entry in self.of.audit.entries():
            own = bool(self.owner) and entry.subject == self.owner
            if own:
                yield _dict(entry)
            elif wanted & set(entry.object_ids):
                yield _dict(_without_caller(entry, wanted))

    async def _settings(self) -> AsyncIterator[dict[str, Any]]:
        if self.owner:
            yield _dict(await self.of.owners.get(self.owner))
            yield _dict(await self.of.quotas.newest(self.owner))


def _without_caller(entry: audit_pb2.AuditEntry, wanted: Collection[str]) -> audit_pb2.AuditEntry:
    """A call of another about the owner: where it came from is about that other."""
    return audit_pb2.AuditEntry(
        sequence=entry.sequence,
        time=entry.time,
        subject=entry.subject,
        method=entry.method,
        object_ids=[one for one in entry.object_ids if one in wanted],
        reason=entry.reason,
    )


def _of_item(item: webhook_pb2.WebhookItem) -> dict[str, Any]:
    shown = _shown(item)
    with suppress(ValueError):
        shown["body"] = _redacted(json.loads(item.body), _secret(item.url))
    return shown


def _of_letter(letter: job_pb2.DeadLetter) -> dict[str, Any]:
    if letter.kind != job_pb2.LETTER_KIND_WEBHOOK:
        return _shown(letter)
    shown = _dict(letter)
    with suppress(DecodeError):
        item = webhook_pb2.WebhookItem.FromString(letter.content)
        shown = {**_redacted(shown, _secret(item.url))}
        shown["content"] = _of_item(item)
    return shown


def _shown(message: Message) -> dict[str, Any]:
    """The message as JSON, with the secrets of its webhook address replaced."""
    found = _dict(message)
    return {**_redacted(found, _secret(_webhook_of(found)))}


def _webhook_of(found: Any) -> str:
    """The first webhook address anywhere in a message."""
    if isinstance(found, dict):
        is_delivery = "event_id" in found and "type" in found and "state" in found
        if own := found.get("webhook_url") or (is_delivery and found.get("url")):
            return str(own)
        return next(filter(None, map(_webhook_of, found.values())), "")
    if isinstance(found, list):
        return next(filter(None, map(_webhook_of, found)), "")
    return ""


def _secret(url: str) -> tuple[str, str]:
    """A webhook address, and what is shown in its place."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url, LEFT_OUT
    hidden = {name: LEFT_OUT for name in ("query", "fragment") if getattr(parts, name)}
    return (url, parts._replace(**hidden).geturl()) if hidden else ("", "")


def _redacted(found: Any, secret: tuple[str, str]) -> Any:
    """The same with one address replaced wherever it occurs."""
    address, shown = secret
    if not address:
        return found
    if isinstance(found, str):
        return found.replace(address, shown)
    if isinstance(found, dict):
        return {name: _redacted(value, secret) for name, value in found.items()}
    if isinstance(found, list):
        return [_redacted(one, secret) for one in found]
    return found


def _dict(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return found


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, ensure_ascii=False, indent=2).encode() + b"\n"
