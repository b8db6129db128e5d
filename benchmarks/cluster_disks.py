"""Small file systems, and how to fill them; only for processes that may mount."""

import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.cluster import SIZE

BROKER_MIB = 160
WORK_MIB = 64
BALLOON = "balloon"
STEPS = (1 << 20, 1 << 12, 1)


@contextmanager
def mounted(folder: Path, mib: int) -> Iterator[None]:
    """A file system of that size in memory at a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(folder))
    try:
        yield
    finally:
        # Lazily: a process that is about to end may have a file open.
        _run("umount", "-l", str(folder))


def can_mount() -> bool:
    """Whether this process may mount."""
    with tempfile.TemporaryDirectory(prefix="ytcaption-mount-") as name:
        try:
            with mounted(Path(name), 1):
                return True
        except (OSError, subprocess.CalledProcessError):
            return False


@contextmanager
def small_disks(folder: Path) -> Iterator[dict[str, Path]]:
    """One for each broker, by its name, and one for the work folders of the orchestrators."""
    disks = {f"n{number}": folder / "brokers" / f"n{number}" for number in range(SIZE)}
    with ExitStack() as stack:
        for path in disks.values():
            stack.enter_context(mounted(path, BROKER_MIB))
        stack.enter_context(mounted(folder / "work", WORK_MIB))
        yield {**disks, "work": folder / "work"}


@contextmanager
def filled(*folders: Path) -> Iterator[None]:
    """No byte is free there until the block ends."""
    balloons = [folder / BALLOON for folder in folders]
    try:
        for balloon in balloons:
            _fill(balloon)
        yield
    finally:
        for balloon in balloons:
            balloon.unlink(missing_ok=True)


def _fill(balloon: Path) -> None:
    with balloon.open("wb", buffering=0) as file:
        for step in STEPS:
            try:
                while file.write(bytes(step)) == step:
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def _run(*command: str) -> None:
    if os.geteuid() != 0:
        raise PermissionError("only root mounts file systems")
    subprocess.run(command, check=True, capture_output=True)
