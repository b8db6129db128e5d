"""Scratch folders are removed after each call, and by a purge after a crash."""

from pathlib import Path

import pytest

from downloader.engine import Purged
from downloader.scratch import Scratch
from tests.downloader.helpers import Downloader, files_in
from ytcaption.v1 import downloader_service_pb2 as pb


def leave_behind(root: Path) -> None:
    """The files a killed service leaves."""
    folder = root / "download-dead"
    folder.mkdir()
    (folder / "--Frag1").write_bytes(b"x" * 100)
    (folder / "--Frag2.part").write_bytes(b"x" * 50)


async def test_purge_removes_what_a_dead_service_left(
    downloader: Downloader, tmp_path: Path
) -> None:
    leave_behind(tmp_path)

    removed = await downloader.Purge(pb.DownloaderServicePurgeRequest())

    assert (removed.files_removed, removed.bytes_removed) == (2, 150)
    assert files_in(tmp_path) == []


async def test_a_dry_run_only_counts(downloader: Downloader, tmp_path: Path) -> None:
    leave_behind(tmp_path)

    removed = await downloader.Purge(pb.DownloaderServicePurgeRequest(dry_run=True))

    assert (removed.files_removed, removed.bytes_removed) == (2, 150)
    assert len(files_in(tmp_path)) == 3


def test_a_folder_in_use_is_never_purged(tmp_path: Path) -> None:
    with Scratch(tmp_path).folder() as folder:
        (folder / "piece").write_bytes(b"x")

        # Another service with the same root.
        assert Scratch(tmp_path).purge(dry_run=False) == Purged(files=0, bytes=0)
        assert (folder / "piece").exists()

    assert files_in(tmp_path) == []


def test_a_folder_is_removed_even_if_its_download_failed(tmp_path: Path) -> None:
    def fail() -> None:
        with Scratch(tmp_path).folder() as folder:
            (folder / "piece").write_bytes(b"x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    assert files_in(tmp_path) == []


def test_a_purge_removes_only_scratch_folders(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "folder").mkdir()

    assert Scratch(tmp_path).purge(dry_run=False) == Purged(files=0, bytes=0)
    assert len(files_in(tmp_path)) == 2


def test_purging_a_missing_root_is_no_error(tmp_path: Path) -> None:
    assert Scratch(tmp_path / "never").purge(dry_run=False) == Purged(files=0, bytes=0)
