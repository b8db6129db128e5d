"""Scratch folders are removed after each call, and by a purge after a crash."""

import tempfile
from pathlib import Path

import pytest

from mesh.scratch import Purged, Scratch


def test_a_folder_in_use_is_never_purged(tmp_path: Path) -> None:
    with Scratch(tmp_path, "call-").folder() as folder:
        (folder / "piece").write_bytes(b"x")

        # Another service with the same root.
        assert Scratch(tmp_path, "call-").purge(dry_run=False) == Purged(files=0, bytes=0)
        assert (folder / "piece").exists()

    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_removed_even_if_its_call_failed(tmp_path: Path) -> None:
    def fail() -> None:
        with Scratch(tmp_path, "call-").folder() as folder:
            (folder / "piece").write_bytes(b"x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    assert list(tmp_path.iterdir()) == []


def test_a_purge_removes_only_scratch_folders(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "folder").mkdir()

    assert Scratch(tmp_path, "call-").purge(dry_run=False) == Purged(files=0, bytes=0)
    assert len(list(tmp_path.iterdir())) == 2


def test_purging_a_missing_root_is_no_error(tmp_path: Path) -> None:
    assert Scratch(tmp_path / "never", "call-").purge(dry_run=False) == Purged(files=0, bytes=0)


def test_a_folder_that_a_purge_removes_before_it_is_locked_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tempfile.mkdtemp
    made: list[str] = []

    def make_and_purge_the_first(**where: object) -> str:
        made.append(make(**where))  # type: ignore[call-overload]
        if len(made) == 1:
            assert Scratch(tmp_path, "call-").purge(dry_run=False) == Purged(files=0, bytes=0)
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_purge_the_first)

    with Scratch(tmp_path, "call-").folder() as folder:
        assert folder.is_dir()
        assert [str(folder)] == made[1:]
