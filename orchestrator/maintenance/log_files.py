"""Removes old log files: those a supervisor has moved aside, such as orchestrator.log.1."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from structlog import get_logger

log = get_logger(__name__)

MOVED_ASIDE = "*.log.[0-9]*"


@dataclass(frozen=True, slots=True)
class LogsRemoved:
    """What was removed, or would be."""

    files: int = 0
    size: int = 0
    """Bytes."""


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The folder of the log files; without one nothing is removed: logs go to someone else."""

    folder: Path | None

    async def remove(self, before: datetime, *, dry_run: bool = False) -> LogsRemoved | None:
        """Removes files that were last written before then; None if there is no folder.

        A file that is still written to is never removed.
        """
        if self.folder is None:
            return None
        return await asyncio.to_thread(self._remove, self.folder, before, dry_run=dry_run)

    def _remove(self, folder: Path, before: datetime, *, dry_run: bool) -> LogsRemoved:
        files = size = 0
        for path, length in _older(folder, before):
            try:
                if not dry_run:
                    path.unlink()
            except OSError as error:
                log.warning("cannot remove a log file", file=path.name, error=error.strerror)
                continue
            files, size = files + 1, size + length
        return LogsRemoved(files, size)


def _older(folder: Path, before: datetime) -> Iterator[tuple[Path, int]]:
    for path in sorted(folder.glob(MOVED_ASIDE)):
        try:
            facts = path.lstat()
        except FileNotFoundError:
            continue
        written = datetime.fromtimestamp(facts.st_mtime, UTC)
        if path.is_file() and not path.is_symlink() and written < before:
            yield path, facts.st_size
