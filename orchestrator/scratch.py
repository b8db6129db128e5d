"""What runners and uploads that died left in the working folder."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OURS = ("tmp*", "upload-*")
"""Folders of attempts and files of uploads; nothing else there is touched."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """How much there is, or was."""

    files: int
    size: int


def clear(folder: Path, idle_seconds: float, *, dry_run: bool = False) -> Leftovers:
    """Removes what nobody has written to for so long."""
    files = size = 0
    before = time.time() - idle_seconds
    for pattern in OURS:
        for entry in folder.glob(pattern):
            held = list(_parts(entry))
            if not held or max(changed for changed, _ in held) > before:
                continue
            if not dry_run:
                _remove(entry)
            files += 1
            size += sum(part for _, part in held)
    return Leftovers(files, size)


def _parts(entry: Path) -> Iterator[tuple[float, int]]:
    """When each part was last changed, and its size; nothing if it vanishes meanwhile."""
    try:
        for path in (entry, *entry.rglob("*")):
            found = path.lstat()
            yield found.st_mtime, 0 if path.is_dir() else found.st_size
    except FileNotFoundError:
        return


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)
