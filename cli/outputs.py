"""Caption files: fetched when the job has ended, whole or not there at all."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.channel import UNARY_SECONDS, Server
from cli.exits import CommandError, Exit
from mesh.correlation import call_metadata
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
        self, server: Server, job_id: str, stem: str, timeout: float = UNARY_SECONDS
    ) -> list[Path]:
        """Writes every file; returns their paths."""
        paths = []
        for name in self.formats:
            request = pb.GetCaptionsRequest(
                job_id=job_id, format=FORMATS[name], word_cues=self.word_cues and name == "vtt"
            )
            content = await get_captions(server, request, timeout)
            path = self.directory / f"{stem}.{name}"
            await asyncio.to_thread(write_whole, path, content)
            paths.append(path)
        return paths


async def get_captions(
    server: Server, request: pb.GetCaptionsRequest, timeout: float = UNARY_SECONDS
) -> bytes:
    """The captions as the server has them now."""
    found = await server.pipeline.GetCaptions(request, timeout=timeout, metadata=call_metadata())
    return found.content


def write_whole(path: Path, content: bytes) -> None:
    """Either the old file or the new one is there, never half of one."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            half.write_bytes(content)
            half.replace(path)
        finally:
            half.unlink(missing_ok=True)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}", Exit.REFUSED) from error
