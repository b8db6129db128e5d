"""Environment marks, by which processes that a command left behind are found."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.command import MARK, marked
from tests.support.dummy_service import install


@pytest.fixture
def mark() -> Iterator[str]:
    """Kills the processes that still have the mark after the test."""
    name = uuid4().hex
    yield name
    for process in marked(name):
        process.kill()


@pytest.fixture
def mesh(tmp_path: Path, mark: str) -> dict[str, str]:
    """An environment with dummy services and a temporary directory of the test."""
    (tmp_path / "tmp").mkdir()
    return {
        "path_first": install(tmp_path / "services"),
        "TMPDIR": str(tmp_path / "tmp"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        MARK: mark,
    }
