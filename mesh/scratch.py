"""Temporary folders, one per call, that are removed even after the service was killed."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mesh.private import private_folder


@dataclass(frozen=True, slots=True)
class Purged:
    """What a purge removed, or would remove."""

    files: int
    bytes: int


class Scratch:
    """Makes and purges the folders under one root.

    A folder in use is locked, and the lock ends with the process that holds it. So a folder that
    can be locked is unused, even if several services share the root.
    """

    def __init__(self, root: Path, prefix: str) -> None:
        self._root = root
        self._prefix = prefix
        """Of the names of our folders: a purge leaves others alone."""

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A new, empty folder; removed when the block ends."""
        private_folder(self._root)
        with ExitStack() as stack:
            path = self._locked_folder(stack)
            stack.callback(shutil.rmtree, path, ignore_errors=True)
            yield path

    def _locked_folder(self, stack: ExitStack) -> Path:
        while True:
            path = Path(tempfile.mkdtemp(prefix=self._prefix, dir=self._root))
            # A purge may remove the folder before it is locked: then try another.
            with suppress(FileNotFoundError, BlockingIOError):
                stack.enter_context(_locked(path))
                if path.exists():
                    return path

    def purge(self, *, dry_run: bool) -> Purged:
        """Removes the folders that are not in use."""
        files = size = 0
        for path in self._root.glob(f"{self._prefix}*"):
            with suppress(OSError), _locked(path):
                sizes = [file.lstat().st_size for file in path.rglob("*") if not file.is_dir()]
                files += len(sizes)
                size += sum(sizes)
                if not dry_run:
                    shutil.rmtree(path)
        return Purged(files=files, bytes=size)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
