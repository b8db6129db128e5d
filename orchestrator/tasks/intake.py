"""Stores what a collector finds in the event log of its task: each thing once, within bounds."""

from hashlib import sha256

from google.protobuf.struct_pb2 import Struct

from mesh.errors import InvalidRequestError, LimitExceededError
from mesh.job_options import MAX_URL_BYTES
from mesh.reasons import Reason
from orchestrator.jobs.event_log import EventLogWriter
from orchestrator.tasks.lease import TaskLease
from orchestrator.tasks.log import TaskLog
from orchestrator.tasks.spool import Spool
from ytcaption.v1 import collection_pb2, event_pb2, task_pb2
from ytcaption.v1 import collector_service_pb2 as pb

MAX_TEXT_BYTES = 512 * 1024
MAX_METADATA_BYTES = 16 * 1024
MAX_KEY = 200
MAX_TITLE = 500
MAX_WORD = 100
MAX_FILES = 1000
"""Files of one task: their names are in its record."""


class Intake:
    """Takes the responses of one call of a collector."""

    def __init__(
        self, lease: TaskLease, event_log: EventLogWriter, seen: TaskLog, spool: Spool
    ) -> None:
        self._lease = lease
        self._event_log = event_log
        self._keys = seen.keys
        self._files = seen.files
        self._spool = spool
        self._file: pb.CollectResponse | None = None
        """The file that is received."""
        self._dropping = False
        """Bytes of a file that is known, or one too many."""
        lease.task.found = len(self._keys)

    @property
    def full(self) -> bool:
        """Whether the task has as many things as it may."""
        return len(self._keys) >= self._lease.record.max_items

    async def take(self, response: pb.CollectResponse) -> None:
        """Returns once what the response brings is stored."""
        kind = response.WhichOneof("event")
        if kind in ("recording", "document", "file") and (self._spool.receiving or self._dropping):
            raise InvalidRequestError("a file has not ended: an empty chunk ends it")
        match kind:
            case "recording":
                await self._take_recording(response)
            case "document":
                await self._take_document(response)
            case "file":
                await self._begin_file(response)
            case "chunk":
                await self._take_chunk(response.chunk)
            case "progress":
                note_progress(self._lease.task, response.progress)

    def end(self) -> None:
        """There is no more."""
        self._spool.check_ended()

    async def _take_recording(self, response: pb.CollectResponse) -> None:
        found = response.recording
        url = found.url.strip()
        if not url or len(url.encode()) > MAX_URL_BYTES:
            raise InvalidRequestError("a recording has no address, or one that is too long")
        member = collection_pb2.Member(
            source_url=url,
            title=found.title[:MAX_TITLE],
            upload_date=found.publish_date[:MAX_WORD],
        )
        await self._store(
            event_pb2.ItemCollected(
                key=_short(response.key or url),
                recording=member,
                metadata=_checked(found.metadata),
            )
        )

    async def _take_document(self, response: pb.CollectResponse) -> None:
        found = response.document
        size = len(found.text.encode())
        if size > MAX_TEXT_BYTES:
            raise InvalidRequestError(
                f"the text of a document has more than {MAX_TEXT_BYTES} bytes",
                reason=Reason.TOO_LARGE,
            )
        if len(found.url.encode()) > MAX_URL_BYTES:
            raise InvalidRequestError("the address of a document is too long")
        key = _short(response.key or found.url or sha256(found.text.encode()).hexdigest())
        if key in self._keys:
            return
        if size > self._spool.free:
            raise LimitExceededError("more bytes than one task may have", reason=Reason.TOO_LARGE)
        self._spool.free -= size
        document = task_pb2.Document(
            url=found.url,
            title=found.title[:MAX_TITLE],
            text=found.text,
            language=found.language[:MAX_WORD],
            publish_date=found.publish_date[:MAX_WORD],
            metadata=_checked(found.metadata),
        )
        await self._store(event_pb2.ItemCollected(key=key, document=document))

    async def _begin_file(self, response: pb.CollectResponse) -> None:
        if self._files >= MAX_FILES:
            raise LimitExceededError(f"more than {MAX_FILES} files", reason=Reason.TOO_LARGE)
        self._dropping = self.full or (bool(response.key) and _short(response.key) in self._keys)
        if not self._dropping:
            self._file = response
            await self._spool.begin(response.file.size_bytes)

    async def _take_chunk(self, chunk: bytes) -> None:
        if self._dropping:
            self._dropping = bool(chunk)
            return
        if chunk:
            self._spool.write(chunk)
            return
        self._spool.end()
        assert self._file is not None  # noqa: S101 # the spool would have raised
        key = _short(self._file.key or self._spool.digest)
        if key in self._keys:
            return
        file = self._file.file
        stored = event_pb2.StoredFile(
            name=f"file-{self._files + 1}",
            file_name=file.file_name[:MAX_TITLE],
            title=file.title[:MAX_TITLE],
            size_bytes=self._spool.size,
        )
        await self._spool.store(stored.name)
        self._files += 1
        item = event_pb2.ItemCollected(key=key, file=stored, metadata=_checked(file.metadata))
        await self._store(item)

    async def _store(self, item: event_pb2.ItemCollected) -> None:
        if item.key in self._keys or self.full:
            return
        await self._event_log.append(item_collected=item)
        self._keys.add(item.key)
        self._lease.task.found = len(self._keys)


def note_progress(task: task_pb2.Subtask, progress: pb.TaskProgress) -> None:
    """Takes over how far the task says it is; it never goes back."""
    if progress.total:
        share = min(1.0, progress.done / progress.total)
        task.progress = max(task.progress, share)


def _short(key: str) -> str:
    """The key, or what stands for one that is too long to keep."""
    return key if len(key) <= MAX_KEY else sha256(key.encode()).hexdigest()


def _checked(metadata: Struct) -> Struct:
    if metadata.ByteSize() > MAX_METADATA_BYTES:
        raise InvalidRequestError(
            f"metadata has more than {MAX_METADATA_BYTES} bytes", reason=Reason.TOO_LARGE
        )
    return metadata
