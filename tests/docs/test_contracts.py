"""The contract check compares protos/ with the released image and catches what breaks callers."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, page

RELEASED = "protos/released.binpb"
CHECK = ("breaking", "--against", RELEASED)


def _buf(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("buf")), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    """A copy of the contract that a test may break."""
    shutil.copytree(ROOT / "protos", tmp_path / "protos")
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    return tmp_path


def _edit(contract: Path, name: str, pattern: str, replacement: str) -> None:
    path = contract / "protos/ytcaption/v1" / name
    changed, count = re.subn(pattern, replacement, path.read_text(), count=1, flags=re.MULTILINE)
    assert count == 1, pattern
    path.write_text(changed)


def test_the_check_runs_against_the_released_image() -> None:
    assert f"buf {' '.join(CHECK)}\n" in page("scripts/check")


def test_the_contract_breaks_no_released_caller(contract: Path) -> None:
    checked = _buf(contract, *CHECK)

    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    ("pattern", "replacement", "complaint"),
    [
        pytest.param(r"^  string correlation_id = 2;$", "", "was deleted", id="removed-field"),
        pytest.param(
            r"^  string correlation_id = 2;$",
            "  string correlation = 2;",
            "changed name",
            id="renamed-field",
        ),
        pytest.param(
            r"^  string correlation_id = 2;$",
            "  int64 correlation_id = 2;",
            "changed type",
            id="retyped-field",
        ),
    ],
)
def test_a_change_that_breaks_callers_is_refused(
    contract: Path, pattern: str, replacement: str, complaint: str
) -> None:
    _edit(contract, "job.proto", pattern, replacement)

    checked = _buf(contract, *CHECK)

    assert checked.returncode != 0
    assert complaint in checked.stdout + checked.stderr


def test_a_new_field_is_allowed(contract: Path) -> None:
    _edit(contract, "job.proto", r"^message DeadLetter \{$", r"\g<0>\n  string added = 9999;")

    checked = _buf(contract, *CHECK)

    assert checked.returncode == 0, checked.stdout
