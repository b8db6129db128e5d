"""Marks on processes, by which what a command left behind is found."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.cli.command import MARK, marked
from tests.cli.dummy_service import install


@pytest.fixture
def mark() -> Iterator[str]:
    """Whatever still bears it after the test is killed."""
    name = uuid4().hex
    yield name
    for process in marked(name):
        process.kill()


@pytest.fixture
def mesh(tmp_path: Path, mark: str) -> dict[str, str]:
    """An environment in which the services are stand-ins and temporary files are ours."""
    (tmp_path / "tmp").mkdir()
    return {
        "path_first": install(tmp_path / "services"),
        "TMPDIR": str(tmp_path / "tmp"),
        MARK: mark,
    }
