"""Caption files of a job, and of a collection's members: fetched, and written atomically."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import BinaryIO

import grpc

from captions import formats
from cli.channel import UNARY_SECONDS, Server, as_command_error, call
from cli.exits import CommandError, Exit
from cli.render.screen import Screen
from cli.render.text import file_stem
from mesh.watching import CUT_OFF
from ytcaption.v1 import collection_pb2 as collection_pb
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb
from ytcaption.v1 import pipeline_service_pb2 as pb

FORMATS = {
    name: media_pb.CaptionFormat.Value(f"CAPTION_FORMAT_{name.upper()}") for name in formats.FORMATS
}
CONCURRENCY = 4
BACKOFF_SECONDS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Pauses between the tries of one member, so that a server may restart meanwhile."""


@dataclass(frozen=True, slots=True)
class CaptionOutput:
    """The directory and formats of the caption files to write; without formats none."""

    directory: Path
    formats: Sequence[str]
    word_cues: bool = False
    """Word times within cues, in the formats that have them."""

    def prepare(self) -> None:
        """Creates the directory now, so that a bad path fails before an hour of transcription."""
        if not self.formats:
            return
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if not os.access(self.directory, os.W_OK | os.X_OK):
                raise PermissionError(0, "not writable")
        except OSError as error:
            message = f"cannot write into {self.directory}: {error.strerror}"
            raise CommandError(message, Exit.REFUSED) from error

    async def fetch(
        self,
        server: Server,
        job: job_pb.Job,
        stem: str,
        timeout: float = UNARY_SECONDS,
    ) -> list[Path]:
        """Writes a file for each format, and for the translation if there is one; returns paths."""
        tracks = [(stem, False)]
        if job.language_out:
            tracks.append((f"{stem}.{job.language_out}", True))
        paths = []
        for (track_stem, translated), name in product(tracks, self.formats):
            request = pb.GetCaptionsRequest(
                job_id=job.job_id,
                format=FORMATS[name],
                word_cues=self.word_cues and formats.FORMATS[name].word_cues and not translated,
                translated=translated,
            )
            content = (await call(server.pipeline.GetCaptions, request, timeout)).content
            path = self.directory / f"{track_stem}.{name}"
            await asyncio.to_thread(write_whole, path, content)
            paths.append(path)
        return paths


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file atomically: a reader finds the old content or the new."""
    with whole_file(path) as opened:
        opened.write(content)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Opens a temporary file that takes its name on success and is removed on failure."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            with temporary.open("wb") as opened:
                yield opened
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}", Exit.REFUSED) from error


def stem_of(member: collection_pb.Member) -> str:
    """001 A talk: sorts like the collection, and is unique in it."""
    return f"{member.number:03} {file_stem(member.title, member.job_id)}"


class MemberCaptionWriter:
    """Writes each member's captions once, a few members at a time."""

    def __init__(
        self, server: Server, output: CaptionOutput, screen: Screen, *, translated: bool
    ) -> None:
        self.paths: list[Path] = []
        self._server = server
        self._output = output
        self._screen = screen
        self._translated = translated
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._failures: list[CommandError] = []

    def start(self, member: collection_pb.Member) -> None:
        """Starts a task for the member, unless it has one."""
        if self._output.formats and member.number not in self._tasks:
            self._tasks[member.number] = asyncio.create_task(self._write(member))

    async def finish(self) -> CommandError | None:
        """Waits for all tasks; returns an error if some files could not be written."""
        await asyncio.gather(*self._tasks.values())
        self.paths.sort()
        if not self._failures:
            return None
        first, count = self._failures[0], len(self._failures)
        message = f"the captions of {count} members could not be written; the first: {first}"
        return first if count == 1 else CommandError(message, first.code, first.reason)

    async def abandon(self) -> None:
        """Cancels what is not written yet."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self.paths.sort()

    async def _write(self, member: collection_pb.Member) -> None:
        async with self._slots:
            try:
                paths = await self._fetch(member)
            except CommandError as error:
                self._failures.append(error)
                if len(self._failures) == 1:  # a full disk is reported once, not for each member
                    self._screen.line(f"member {member.number}: {error}")
            else:
                self.paths.extend(paths)

    async def _fetch(self, member: collection_pb.Member) -> list[Path]:
        job = job_pb.Job(job_id=member.job_id)
        for pause in (*BACKOFF_SECONDS, None):
            try:
                # Only the job says whether speech was in another language at all.
                if self._translated:
                    request = pb.GetJobRequest(job_id=member.job_id)
                    job = (await call(self._server.pipeline.GetJob, request)).job
                return await self._output.fetch(self._server, job, stem_of(member))
            except grpc.aio.AioRpcError as error:
                if pause is None or error.code() not in CUT_OFF:
                    raise as_command_error(error, self._server.address) from error
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")
