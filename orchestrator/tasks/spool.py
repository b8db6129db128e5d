"""Spools one file at a time that a collector or executor sends; stores it when it is whole."""

from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from mesh.errors import InvalidRequestError, LimitExceededError, UnavailableError
from mesh.frames import MAX_FRAME_BYTES
from mesh.reasons import Reason
from orchestrator.jobs.artifacts import Artifacts
from orchestrator.queue.capacity import Capacity
from orchestrator.tasks.lease import TaskLease


class Spool:
    """A file on the disk while it is received, within the bytes its task may have."""

    def __init__(
        self, lease: TaskLease, artifacts: Artifacts, capacity: Capacity, path: Path, free: int
    ) -> None:
        self._lease = lease
        self._artifacts = artifacts
        self._capacity = capacity
        self._path = path
        self.free = free
        """Bytes the task may still have."""
        self._file: BinaryIO | None = None
        self._announced = self.size = 0
        self._digest = sha256()

    @property
    def receiving(self) -> bool:
        """Whether a file was begun and has not ended."""
        return self._file is not None

    @property
    def digest(self) -> str:
        """SHA-256 of what was received."""
        return self._digest.hexdigest()

    async def begin(self, announced: int) -> None:
        """Begins a file; `announced` is its length, 0 while unknown."""
        if self.receiving:
            raise _broken("a file begins before the one before it has ended")
        self._check(announced)
        await self._capacity.check(announced)
        self._file = self._path.open("wb")
        self._announced, self.size, self._digest = announced, 0, sha256()

    def write(self, chunk: bytes) -> None:
        """Takes the next bytes."""
        if self._file is None:
            raise _broken("bytes came before the file they belong to")
        if len(chunk) > MAX_FRAME_BYTES:
            raise InvalidRequestError(
                f"a chunk has more than {MAX_FRAME_BYTES} bytes", reason=Reason.FRAME_TOO_LARGE
            )
        self._check(self.size + len(chunk))
        self.size += self._file.write(chunk)
        self._digest.update(chunk)

    def end(self) -> None:
        """Everything was received."""
        if self._file is None:
            raise _broken("a file ended that was not begun")
        self._file.close()
        self._file = None
        if self._announced not in (0, self.size):
            raise InvalidRequestError(
                f"{self._announced} bytes were announced, {self.size} came",
                reason=Reason.SIZE_MISMATCH,
            )

    async def store(self, name: str) -> None:
        """Stores the file that ended; its name is in the record first, so it can be removed."""
        await self._capacity.check(self.size)
        if name not in self._lease.record.stored_names:
            self._lease.record.stored_names.append(name)
            await self._lease.save()
        await self._artifacts.put_file(self._lease.task.task_id, name, self._path)
        self.free -= self.size

    def check_ended(self) -> None:
        """Raises if the stream ended in the middle of a file."""
        if self.receiving:
            raise UnavailableError(
                "the answer ended in the middle of a file", reason=Reason.NETWORK_ERROR
            )

    def close(self) -> None:
        """Removes what is on the disk."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._path.unlink(missing_ok=True)

    def _check(self, size: int) -> None:
        if size > self.free:
            raise LimitExceededError("more bytes than one task may have", reason=Reason.TOO_LARGE)


def _broken(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, reason=Reason.REQUEST_INVALID)
