"""Caption files: fetched when the job has ended, whole or not there at all."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from cli.channel import UNARY_SECONDS, Server
from cli.exits import CommandError, Exit
from mesh.correlation import call_metadata
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb
from ytcaption.v1 import pipeline_service_pb2 as pb

FORMATS = {
    "srt": media_pb.CAPTION_FORMAT_SRT,
    "vtt": media_pb.CAPTION_FORMAT_VTT,
    "txt": media_pb.CAPTION_FORMAT_TXT,
    "json": media_pb.CAPTION_FORMAT_JSON,
    "tsv": media_pb.CAPTION_FORMAT_TSV,
    "lrc": media_pb.CAPTION_FORMAT_LRC,
}


@dataclass(frozen=True, slots=True)
class Output:
    """Which files are wanted, and where."""

    directory: Path
    formats: Sequence[str]
    word_cues: bool = False
    """In the formats that have them."""

    def prepare(self) -> None:
        """Makes the directory now: nobody wants to hear about it an hour later."""
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
        """Writes every file, the translated ones too if there are any; returns their paths."""
        tracks = [(stem, False)]
        if job.language_out:
            tracks.append((f"{stem}.{job.language_out}", True))
        return [
            await self._write(server, job.job_id, track_stem, name, translated, timeout)
            for track_stem, translated in tracks
            for name in self.formats
        ]

    async def _write(  # noqa: PLR0913 # one file
        self, server: Server, job_id: str, stem: str, name: str, translated: bool, timeout: float
    ) -> Path:
        request = pb.GetCaptionsRequest(
            job_id=job_id,
            format=FORMATS[name],
            word_cues=self.word_cues and name == "vtt" and not translated,
            translated=translated,
        )
        content = await get_captions(server, request, timeout)
        path = self.directory / f"{stem}.{name}"
        await asyncio.to_thread(write_whole, path, content)
        return path


async def get_captions(
    server: Server, request: pb.GetCaptionsRequest, timeout: float = UNARY_SECONDS
) -> bytes:
    """The captions as the server has them now."""
    found = await server.pipeline.GetCaptions(request, timeout=timeout, metadata=call_metadata())
    return found.content


def write_whole(path: Path, content: bytes) -> None:
    """Either the old file or the new one is there, never half of one."""
    with whole_file(path) as opened:
        opened.write(content)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes its name when all is written, and is gone if not all was."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            with half.open("wb") as opened:
                yield opened
            half.replace(path)
        finally:
            half.unlink(missing_ok=True)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}", Exit.REFUSED) from error
