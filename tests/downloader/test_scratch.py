"""A purge removes the files that downloads of a killed service left."""

from pathlib import Path

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
