"""Old log files are removed; one in use, one of others, and a link never."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from orchestrator.maintenance.log_files import LogFiles, LogsRemoved

DAY = timedelta(days=1)


def written(path: Path, hours: float) -> Path:
    """A file that was last written so many hours ago."""
    path.write_text("line\n")
    moment = time.time() - hours * 3600
    os.utime(path, (moment, moment))
    return path


async def test_only_files_that_were_moved_aside_before_then_are_removed(tmp_path: Path) -> None:
    old = [written(tmp_path / name, 25) for name in ("a.log.1", "b.log.2")]
    kept = [
        written(tmp_path / "a.log", 25),
        written(tmp_path / "c.log.1", 23),
        written(tmp_path / "notes.txt", 25),
        written(tmp_path / "a.log.bak", 25),
    ]
    target = written(tmp_path / "elsewhere", 25)
    (tmp_path / "d.log.1").symlink_to(target)
    files, before = LogFiles(tmp_path), datetime.now(UTC) - DAY

    counted = await files.remove(before, dry_run=True)
    assert all(path.exists() for path in old)
    done = await files.remove(before)

    assert counted == done == LogsRemoved(files=2, size=10)
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in (*kept, target, tmp_path / "d.log.1"))


async def test_without_a_folder_nothing_is_said_to_be_cleaned() -> None:
    assert await LogFiles(None).remove(datetime.now(UTC)) is None
