"""Where the audio comes from, as the user wrote it, and how it gets to the server."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path

from cli.channel import UNARY_SECONDS, Server
from cli.exits import CommandError, Exit
from mesh.calls import truthful
from mesh.correlation import call_metadata, current
from mesh.frames import cut
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import pipeline_service_pb2 as pb

READ_BYTES = 1024 * 1024

OnSent = Callable[[int, int], None]
"""Takes the bytes sent and the bytes there are."""


@dataclass(frozen=True, slots=True)
class Address:
    """A page or a media file on the net."""

    url: str


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file on this machine."""

    path: Path
    size_bytes: int


Source = Address | LocalFile


def parse_source(text: str) -> Source:
    """An http(s) address, or a file that exists and can be read."""
    if text.lower().startswith(("http://", "https://")):
        return Address(text)
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
class Order:
    """What is asked of the server."""

    source: Source
    options: job_pb.JobOptions
    force: bool = False
    caller: str = ""
    priority: "job_pb.Priority.ValueType" = job_pb.PRIORITY_NORMAL
    webhook_url: str = ""


async def create_job(server: Server, order: Order, on_sent: OnSent) -> job_pb.Job:
    """Returns once the server has made the job durable."""
    if isinstance(order.source, LocalFile):
        return await _upload(server, order, order.source, on_sent)
    request = pb.CreateJobRequest(
        source_url=order.source.url,
        options=order.options,
        correlation_id=current(),
        force=order.force,
        caller=order.caller,
        priority=order.priority,
        webhook_url=order.webhook_url,
    )
    created = await server.pipeline.CreateJob(
        request, timeout=UNARY_SECONDS, metadata=call_metadata()
    )
    return created.job


async def _upload(server: Server, order: Order, file: LocalFile, on_sent: OnSent) -> job_pb.Job:
    start = pb.UploadStart(
        file_name=file.path.name.encode(errors="replace").decode(),
        options=order.options,
        correlation_id=current(),
        size_bytes=file.size_bytes,
        force=order.force,
        caller=order.caller,
        priority=order.priority,
        webhook_url=order.webhook_url,
    )
    frames = _frames(start, file.path, on_sent)
    call = truthful(server.pipeline.CreateJobFromUpload(frames, metadata=call_metadata()))
    try:
        return (await call).job
    finally:
        call.cancel()


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
