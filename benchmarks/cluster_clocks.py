"""Clocks of services that jump; the clock of the machine stays as it is. Needs libfaketime.

Only wall clocks jump. A monotonic clock does not, with libfaketime as without. Brokers are not
affected: a Go program does not ask the C library for the time.
"""

import subprocess
import sys
from pathlib import Path

FOLDERS = (Path("/usr/lib"), Path("/usr/local/lib"))
LIBRARY = "libfaketimeMT.so.1"
AGAIN_SECONDS = 1
"""How often a process reads its offset."""
HOUR_SECONDS = 3600
NOW = "import time; print(time.time())"


def find_library() -> Path | None:
    """Debian's libfaketime, if it is installed and Python obeys it."""
    found = sorted(path for folder in FOLDERS for path in folder.glob(f"**/faketime/{LIBRARY}"))
    return next(filter(_works, found), None)


def _works(library: Path) -> bool:
    moved = {**variables(library, Path("/nonexistent")), "FAKETIME": f"+{HOUR_SECONDS}"}
    del moved["FAKETIME_TIMESTAMP_FILE"]
    here, there = (_time_with(each) for each in ({}, moved))
    return there - here > HOUR_SECONDS / 2


def _time_with(environment: dict[str, str]) -> float:
    command = [sys.executable, "-I", "-c", NOW]
    return float(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)


def variables(library: Path, clock: Path) -> dict[str, str]:
    """The environment of a process whose clock has the offset written in a file."""
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": str(AGAIN_SECONDS),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }


def set_clock(clock: Path, seconds: float) -> None:
    """Moves the clock of the processes that have this file, by so much from the true time."""
    # Replaced, not rewritten: a process may read it at any moment.
    new = clock.with_suffix(".new")
    new.write_text(f"{seconds:+.0f}\n", encoding="ascii")
    new.replace(clock)
