"""The source of a job: an address, or a local file that is uploaded."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from cli.channel import Server, call
from cli.exits import CommandError, Exit
from mesh.correlation import call_metadata, current
from mesh.frames import cut, truthful
from mesh.watching import cancelled_after
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import pipeline_service_pb2 as pb

READ_BYTES = 1024 * 1024

OnSent = Callable[[int, int], None]
"""Takes the bytes sent so far and the size of the file."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file on this machine."""

    path: Path
    size_bytes: int


Source = str | LocalFile
"""The address of a page or a media file, or a file to upload."""


def parse_source(text: str) -> Source:
    """Accepts an http(s) address, or a file that exists and can be read."""
    if text.lower().startswith(("http://", "https://")):
        return text
    path = Path(text).expanduser()
    if "://" in text and not path.exists():
        raise CommandError(f"{text} is neither an http(s) address nor a file", Exit.REFUSED)
    try:
        if not path.exists():
            raise CommandError(f"there is no file {text}", Exit.REFUSED)
        if not path.is_file():
            raise CommandError(f"{text} is not a file", Exit.REFUSED)
        with path.open("rb"):
            return LocalFile(path, path.stat().st_size)
    except OSError as error:
        raise CommandError(f"cannot read {text}: {error.strerror}", Exit.REFUSED) from error


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job request: the source and everything chosen for the job."""

    source: Source
    options: job_pb.JobOptions
    force: bool = False
    caller: str = ""
    priority: "job_pb.Priority.ValueType" = job_pb.PRIORITY_NORMAL
    webhook_url: str = ""
    group: str | None = None


async def create_job(server: Server, spec: JobSpec, on_sent: OnSent) -> job_pb.Job:
    """Returns once the server has made the job durable."""
    common = {one.name: getattr(spec, one.name) for one in fields(spec) if one.name != "source"}
    common["correlation_id"] = current()
    if isinstance(spec.source, LocalFile):
        return await _upload(server, spec.source, common, on_sent)
    request = pb.CreateJobRequest(source_url=spec.source, **common)
    return (await call(server.pipeline.CreateJob, request)).job


async def _upload(
    server: Server, file: LocalFile, common: dict[str, Any], on_sent: OnSent
) -> job_pb.Job:
    file_name = file.path.name.encode(errors="replace").decode()
    start = pb.UploadStart(file_name=file_name, size_bytes=file.size_bytes, **common)
    frames = _frames(start, file.path, on_sent)
    upload = truthful(server.pipeline.CreateJobFromUpload(frames, metadata=call_metadata()))
    with cancelled_after(upload):
        return (await upload).job


async def _frames(
    start: pb.UploadStart, path: Path, on_sent: OnSent
) -> AsyncGenerator[pb.CreateJobFromUploadRequest, None]:
    yield pb.CreateJobFromUploadRequest(start=start)
    sent = 0
    with path.open("rb") as opened:
        while block := await asyncio.to_thread(opened.read, READ_BYTES):
            for chunk in cut(block):
                yield pb.CreateJobFromUploadRequest(chunk=chunk)
                sent += len(chunk)
                on_sent(sent, start.size_bytes)
