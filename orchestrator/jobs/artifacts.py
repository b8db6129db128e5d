"""Artifacts: files stored for jobs (uploads, audio, transcripts), streamed in and out."""

import tempfile
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from nats.js.api import ObjectInfo
from nats.js.errors import NotFoundError as KeyMissingError
from nats.js.errors import ObjectNotFoundError

from mesh.bus import Bus, Stored, outlast, storing
from mesh.errors import NotFoundError, UnavailableError
from mesh.frames import cut
from mesh.reasons import Reason
from ytcaption.v1 import job_pb2, media_pb2

UPLOAD = "upload"
TRANSCRIPT = "transcript.pb"
SOURCE = "source"
"""The download, stored until the job has succeeded."""
BATCH = 4
"""Chunks of 128 KiB read ahead."""
FAR_BYTES = 2**20
"""Below this offset, reading from the start is as quick as looking up the position."""


def names_of(job: job_pb2.Job) -> list[str]:
    """Every name under which a job may have a file."""
    listed = {artifact.name for artifact in job.artifacts}
    return sorted(listed | {UPLOAD, SOURCE, TRANSCRIPT})


class Artifacts:
    """Files under <job id>/<name> in the object store."""

    def __init__(self, bus: Bus, *, patience_seconds: float = 0) -> None:
        self._bus = bus
        self._patience = patience_seconds
        """How long to wait for a broker that is away."""

    async def put_file(self, job_id: str, name: str, path: Path) -> int:
        """Stores a file and returns its size; repeated if the broker dies meanwhile."""

        async def put() -> int:
            with path.open("rb") as file:  # nats-py reads it in a thread
                async with storing():
                    info = await self._bus.artifacts.put(f"{job_id}/{name}", file)
            return info.size or 0

        return await outlast(put, self._patience)

    async def copy(self, origin_id: str, job_id: str, name: str, folder: Path) -> None:
        """Copies a file of another job, by way of the disk."""
        with tempfile.NamedTemporaryFile(dir=folder) as spool:
            async for piece in self.read(origin_id, name):
                spool.write(piece)
            spool.flush()
            await self.put_file(job_id, name, Path(spool.name))

    async def put_transcript(self, job_id: str, transcript: media_pb2.Transcript) -> None:
        """Stores the transcript."""
        await self.put(job_id, TRANSCRIPT, transcript.SerializeToString())

    async def put(self, job_id: str, name: str, data: bytes) -> None:
        """Stores a small file."""

        async def put() -> None:
            async with storing():
                await self._bus.artifacts.put(f"{job_id}/{name}", data)

        await outlast(put, self._patience)

    async def transcript(self, job_id: str) -> media_pb2.Transcript:
        """The transcript of a finished job."""
        data = b"".join([chunk async for chunk in self.read(job_id, TRANSCRIPT)])
        return media_pb2.Transcript.FromString(data)

    async def read(
        self, job_id: str, name: str, offset: int = 0, limit: int = 0
    ) -> AsyncIterator[bytes]:
        """Yields the file from an offset on, up to a limit (0: none), in pieces of a frame."""
        info = await self._info(job_id, name)
        left = max(0, (info.size or 0) - offset)
        left = min(limit, left) if limit else left
        if not left:
            return
        after = 0
        if offset >= FAR_BYTES:
            after, offset = await outlast(lambda: self._place(info, offset), self._patience)
        async for chunk in self._chunks(info, after):
            data = chunk.data[offset : offset + left]
            offset = max(0, offset - len(chunk.data))
            left -= len(data)
            for piece in cut(data):
                yield piece
            if not left:
                return
        if left:  # the broker died during the put
            raise UnavailableError(
                f"{name!r} of job {job_id} ends too soon", reason=Reason.STORAGE_UNAVAILABLE
            )

    def _chunks(
        self, info: ObjectInfo, after: int = 0, batch: int = BATCH
    ) -> AsyncIterator[Stored]:
        stream, subject = self._where(info)
        return self._bus.read(stream, subject, after, batch=batch, patience_seconds=self._patience)

    def _where(self, info: ObjectInfo) -> tuple[str, str]:
        bucket = self._bus.names.artifacts_bucket
        return f"OBJ_{bucket}", f"$O.{bucket}.C.{info.nuid}"

    async def _place(self, info: ObjectInfo, offset: int) -> tuple[int, int]:
        """The sequence after which to read, and the offset from there.

        Chunks have one size. Their sequences have no gaps if nothing else was stored meanwhile;
        otherwise the position is unknown, and the file is read from the beginning.
        """
        with suppress(StopAsyncIteration, KeyMissingError):  # removed just now
            first = await anext(self._chunks(info, batch=1))
            async with storing():
                last = await self._bus.jetstream.get_last_msg(*self._where(info), direct=True)
            if (last.seq or 0) - first.sequence + 1 == info.chunks:
                passed, rest = divmod(offset, len(first.data))
                return first.sequence + passed - 1, rest
        return 0, offset

    async def _info(self, job_id: str, name: str) -> ObjectInfo:
        async def get() -> ObjectInfo:
            async with storing():
                return await self._bus.artifacts.get_info(f"{job_id}/{name}")

        try:
            return await outlast(get, self._patience)
        except (ObjectNotFoundError, KeyMissingError) as error:
            raise NotFoundError(
                f"job {job_id} has no file {name!r}", reason=Reason.ARTIFACT_NOT_FOUND
            ) from error

    async def remove(self, job: job_pb2.Job) -> int:
        """Removes every file of a job and returns how many there were."""
        return sum([await self.drop(job.job_id, name) for name in names_of(job)])

    async def size(self, job_id: str, name: str) -> int | None:
        """Bytes of a file, or None if there is none."""
        try:
            return (await self._info(job_id, name)).size or 0
        except NotFoundError:
            return None

    async def drop(self, job_id: str, name: str) -> bool:
        """Removes one file; says whether there was one."""
        try:
            info = await self._info(job_id, name)
        except NotFoundError:
            return False
        await outlast(lambda: self._purge(str(info.name), str(info.nuid)), self._patience)
        return True

    async def _purge(self, name: str, nuid: str) -> None:
        """Removes the name, too: the store's own delete would keep it, and it may be personal."""
        bucket = self._bus.names.artifacts_bucket
        coded = urlsafe_b64encode(name.encode()).decode()
        for subject in (f"$O.{bucket}.C.{nuid}", f"$O.{bucket}.M.{coded}"):
            await self._bus.purge(f"OBJ_{bucket}", subject)
