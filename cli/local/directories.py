"""Directories owned by one process at a time, through a lock that ends with the process."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time

from cli.exits import CommandError, Exit
from mesh.private import check_owner

RUN_PREFIX = "ytcaption-run-"
LOCK_NAME = "lock"
# Between its creation and its lock a directory looks abandoned.
YOUNG_SECONDS = 60


@contextmanager
def locked(directory: Path) -> Iterator[bool]:
    """Tries to lock the directory for the block; yields whether that worked."""
    # Not "w": the file names its holder, which may be another process.
    with (directory / LOCK_NAME).open("a+", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield True


@contextmanager
def data_directory(directory: Path) -> Iterator[None]:
    """Locks the data directory for the block; refuses one that another process holds."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_owner(directory)
        with locked(directory) as acquired:
            if not acquired:
                holder = (directory / LOCK_NAME).read_text(encoding="ascii", errors="replace")
                raise CommandError(
                    f"another `ytcaption up` (process {holder}) uses {directory}; "
                    "stop it, or choose another directory with --data-dir",
                    Exit.UNAVAILABLE,
                )
            yield
    except PermissionError as error:
        raise CommandError(f"cannot use {directory}: {error.strerror}", Exit.REFUSED) from error


@contextmanager
def run_directory() -> Iterator[Path]:
    """Creates a directory for the block; also removes those of runs that were killed."""
    _remove_abandoned(Path(tempfile.gettempdir()))
    directory = Path(tempfile.mkdtemp(prefix=RUN_PREFIX))
    try:
        with locked(directory):
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    for directory in parent.glob(f"{RUN_PREFIX}*"):
        try:
            facts = directory.lstat()
            if facts.st_uid != os.getuid() or time() - facts.st_mtime < YOUNG_SECONDS:
                continue
            with locked(directory) as abandoned:
                if abandoned:
                    shutil.rmtree(directory, ignore_errors=True)
        except OSError:  # another process removed it
            continue
