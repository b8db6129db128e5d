"""Recordings that a collector sent as bytes: members whose jobs get them as uploads."""

import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from orchestrator.collections.projection import Projection
from orchestrator.jobs.artifacts import Artifacts
from ytcaption.v1 import collection_pb2, event_pb2, job_pb2

SCHEME = "upload"
"""Stands before the address of such a member: the subtask, the stored file, the file's name."""
ADDRESS = re.compile(rf"{SCHEME}:(\d+)/([\w-]+)/(.*)", re.DOTALL)


def sent_file(subtask: int, file: event_pb2.StoredFile) -> collection_pb2.Member:
    """The member of a file that a subtask has stored."""
    return collection_pb2.Member(
        source_url=f"{SCHEME}:{subtask}/{file.name}/{file.file_name}",
        title=file.title or file.file_name,
    )


def is_sent_file(member: collection_pb2.Member) -> bool:
    """Whether the member came as bytes, not as an address."""
    return ADDRESS.fullmatch(member.source_url) is not None


@dataclass(frozen=True, slots=True)
class SentFiles:
    """Hands the files of tasks over to the jobs of members."""

    artifacts: Artifacts
    work_dir: Path

    @asynccontextmanager
    async def fetched(
        self, projection: Projection, member: collection_pb2.Member
    ) -> AsyncIterator[tuple[job_pb2.Source, Path]]:
        """The source of the member's job and the file on the disk, inside the block."""
        task_id, name, file_name = _place(projection, member)
        digest, size = sha256(), 0
        with tempfile.NamedTemporaryFile(dir=self.work_dir, prefix="tmp-") as spool:
            async for piece in self.artifacts.read(task_id, name):
                size += spool.write(piece)
                digest.update(piece)
            spool.flush()
            upload = job_pb2.Upload(file_name=file_name, size_bytes=size, sha256=digest.hexdigest())
            yield job_pb2.Source(upload=upload), Path(spool.name)

    async def drop(self, projection: Projection, member: collection_pb2.Member) -> None:
        """Removes the task's copy: the job has its own."""
        task_id, name, _ = _place(projection, member)
        await self.artifacts.drop(task_id, name)


def _place(projection: Projection, member: collection_pb2.Member) -> tuple[str, str, str]:
    """Where the file is, and its name."""
    found = ADDRESS.fullmatch(member.source_url)
    assert found is not None  # noqa: S101 # see is_sent_file
    return projection.subtasks[int(found[1]) - 1].task_id, found[2], found[3]
