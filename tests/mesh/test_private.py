"""Folders are ours and closed, or refused."""

import os
from pathlib import Path

import pytest

from mesh.errors import UnavailableError
from mesh.private import private_folder, write_private
from mesh.reasons import Reason

NOBODY = 65_534


def _give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the path belong to another user; only root can, others become somebody else."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    else:
        monkeypatch.setattr("mesh.private.os.geteuid", lambda: NOBODY)


def test_a_folder_is_made_closed_and_an_open_one_is_closed(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)

    for name in ("new/below", "open"):
        assert private_folder(tmp_path / name).stat().st_mode & 0o777 == 0o700


def test_a_folder_that_another_user_made_first_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o777)
    _give_away(theirs, monkeypatch)

    with pytest.raises(UnavailableError, match="belongs to another user") as caught:
        private_folder(theirs)

    assert caught.value.reason is Reason.STORAGE_FORBIDDEN


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
def test_a_link_of_another_user_to_a_folder_of_ours_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = tmp_path / "link"
    link.symlink_to(private_folder(tmp_path / "ours"))
    private_folder(link)
    _give_away(link, monkeypatch)

    with pytest.raises(UnavailableError, match="belongs to another user"):
        private_folder(link)


def test_a_private_file_replaces_an_open_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o666)

    write_private(path, "new")

    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o600)
    assert list(tmp_path.iterdir()) == [path]
