"""Stores what an executor makes: files in the object store, and one result in the record."""

from google.protobuf.struct_pb2 import Struct

from mesh.errors import InvalidRequestError, LimitExceededError, UnavailableError
from mesh.reasons import Reason
from orchestrator.tasks.intake import MAX_WORD, note_progress
from orchestrator.tasks.lease import TaskLease
from orchestrator.tasks.spool import Spool
from ytcaption.v1 import executor_service_pb2 as pb
from ytcaption.v1 import task_pb2

MAX_FILES = 100
MAX_NAME = 200
MAX_RESULT_BYTES = 256 * 1024
MAX_ITEM_RESULT_BYTES = 16 * 1024
"""Of a task for one item: a collection may have thousands of them, and all are in memory."""
OCTETS = "application/octet-stream"


def stored_name(number: int) -> str:
    """The name in the store of the file with that place, from 1: its own may be any text."""
    return f"result-{number}"


class Results:
    """Takes the responses of one call of an executor."""

    def __init__(self, lease: TaskLease, spool: Spool) -> None:
        self._task = lease.task
        self._spool = spool
        self._file: task_pb2.ResultFile | None = None
        self._files: list[task_pb2.ResultFile] = []
        self._result: Struct | None = None

    async def take(self, response: pb.ExecuteResponse) -> None:
        """Returns once what the response brings is stored."""
        if self._result is not None:
            raise InvalidRequestError("something came behind the result")
        match response.WhichOneof("event"):
            case "progress":
                note_progress(self._task, response.progress)
            case "file":
                await self._begin(response.file)
            case "chunk" if response.chunk:
                self._spool.write(response.chunk)
            case "chunk":
                await self._end_file()
            case "result":
                await self._take_result(response.result)

    async def _begin(self, file: task_pb2.ResultFile) -> None:
        if self._spool.receiving:  # the next file ends the one before
            await self._end_file()
        if len(self._files) >= MAX_FILES:
            raise LimitExceededError(f"more than {MAX_FILES} files", reason=Reason.TOO_LARGE)
        _check_name(file.name, {one.name for one in self._files})
        await self._spool.begin(file.size_bytes)
        self._file = file

    async def _end_file(self) -> None:
        self._spool.end()
        assert self._file is not None  # noqa: S101 # the spool would have raised
        if self._file.sha256 not in ("", self._spool.digest):
            raise UnavailableError(
                "a file does not have the SHA-256 it was announced with",
                reason=Reason.NETWORK_ERROR,
            )
        await self._spool.store(stored_name(len(self._files) + 1))
        self._files.append(
            task_pb2.ResultFile(
                name=self._file.name,
                media_type=self._file.media_type[:MAX_WORD] or OCTETS,
                size_bytes=self._spool.size,
                sha256=self._spool.digest,
            )
        )

    async def _take_result(self, result: Struct) -> None:
        if self._spool.receiving:
            await self._end_file()
        one_item = self._task.member or self._task.document
        most = MAX_ITEM_RESULT_BYTES if one_item else MAX_RESULT_BYTES
        if result.ByteSize() > most:
            raise InvalidRequestError(
                f"the result has more than {most} bytes: send a file",
                reason=Reason.TOO_LARGE,
            )
        self._result = result

    def end(self) -> None:
        """Puts result and files into the task; raises if the executor sent no result."""
        self._spool.check_ended()
        if self._result is None:
            raise UnavailableError(
                "the executor ended without a result", reason=Reason.NETWORK_ERROR
            )
        self._task.result.CopyFrom(self._result)
        del self._task.files[:]
        self._task.files.extend(self._files)


def _check_name(name: str, taken: set[str]) -> None:
    usable = name.isprintable() and not set(name) & set("/\\") and name not in ("", ".", "..")
    if not usable or len(name) > MAX_NAME or name in taken:
        raise InvalidRequestError(f"{name[:MAX_NAME]!r} cannot be the name of a file, or is taken")
