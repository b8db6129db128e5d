"""Caption files: fetched from the server and written atomically."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import BinaryIO

from captions import formats
from cli.channel import UNARY_SECONDS, Server, call
from cli.exits import CommandError, Exit
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb
from ytcaption.v1 import pipeline_service_pb2 as pb

FORMATS = {
    name: media_pb.CaptionFormat.Value(f"CAPTION_FORMAT_{name.upper()}") for name in formats.FORMATS
}


@dataclass(frozen=True, slots=True)
class CaptionOutput:
    """The directory and formats of the caption files to write."""

    directory: Path
    formats: Sequence[str]
    word_cues: bool = False
    """Word times within cues, in the formats that have them."""

    def prepare(self) -> None:
        """Creates the directory now, so that a bad path fails before an hour of transcription."""
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
