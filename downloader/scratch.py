"""Folders that live as long as one download, even if the service dies in between."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from downloader.engine import Removed

PREFIX = "download-"


class Scratch:
    """A folder per download under one root.

    A folder in use is locked, and the lock dies with the process that holds it: so whatever can be
    locked is nobody's, though another service shares the root.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A new, empty folder; gone when the block ends."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self._root))
        with _locked(path):
            try:
                yield path
            finally:
                shutil.rmtree(path, ignore_errors=True)

    def purge(self, *, dry_run: bool) -> Removed:
        """Removes the folders nobody uses."""
        files = size = 0
        for path in self._root.glob(f"{PREFIX}*"):
            with suppress(OSError), _locked(path):
                kept = [file.lstat().st_size for file in path.rglob("*") if not file.is_dir()]
                files += len(kept)
                size += sum(kept)
                if not dry_run:
                    shutil.rmtree(path)
        return Removed(files=files, bytes=size)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
