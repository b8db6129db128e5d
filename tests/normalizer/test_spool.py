"""A purge removes the files that no running call uses, and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mesh.errors import LimitExceededError
from mesh.reasons import Reason
from normalizer.spool import Spool
from tests.normalizer.media import files_in, slow_m4a
from tests.support.polling import until
from ytcaption.v1 import normalizer_service_pb2 as pb
from ytcaption.v1 import normalizer_service_pb2_grpc as rpc


def leave_behind(folder: Path, count: int) -> None:
    """The file a killed process leaves."""
    for number in range(count):
        recording = folder / f"recording-{number}"
        recording.mkdir(parents=True)
        (recording / "media").write_bytes(bytes(1000))


async def test_a_dry_run_counts_and_removes_nothing(
    stub: rpc.NormalizerServiceStub, work_dir: Path
) -> None:
    leave_behind(work_dir, 3)

    answer = await stub.Purge(pb.NormalizerServicePurgeRequest(dry_run=True))

    assert (answer.files_removed, answer.bytes_removed) == (3, 3000)
    assert len(files_in(work_dir)) == 3


async def test_purge_removes_only_files_a_killed_process_left(
    stub: rpc.NormalizerServiceStub, work_dir: Path
) -> None:
    leave_behind(work_dir, 3)
    (work_dir / "somebody's notes.txt").write_text("not ours")

    answer = await stub.Purge(pb.NormalizerServicePurgeRequest())
    again = await stub.Purge(pb.NormalizerServicePurgeRequest())

    assert (answer.files_removed, answer.bytes_removed) == (3, 3000)
    assert (again.files_removed, again.bytes_removed) == (0, 0)
    assert files_in(work_dir) == ["somebody's notes.txt"]


async def test_purge_keeps_the_file_of_a_running_call(
    stub: rpc.NormalizerServiceStub, work_dir: Path
) -> None:
    purged = asyncio.Event()

    async def sending() -> AsyncIterator[pb.NormalizeRequest]:
        yield pb.NormalizeRequest(start=pb.NormalizeStart(job_id="j1"))
        yield pb.NormalizeRequest(chunk=slow_m4a()[:20_000])
        await purged.wait()
        yield pb.NormalizeRequest(chunk=slow_m4a()[20_000:])

    async def purge() -> pb.NormalizerServicePurgeResponse:
        await until(lambda: bool(files_in(work_dir)))
        answer = await stub.Purge(pb.NormalizerServicePurgeRequest())
        purged.set()
        return answer

    purging = asyncio.ensure_future(purge())
    kinds = [event.WhichOneof("event") async for event in stub.Normalize(sending())]

    assert (await purging).files_removed == 0
    assert kinds[-1] == "finished"


async def test_files_are_readable_by_their_owner_only(work_dir: Path) -> None:
    async def nothing() -> AsyncIterator[bytes]:
        yield b"secret"

    async with Spool(work_dir, 100).filled(nothing()) as path:
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0
        assert path.read_bytes() == b"secret"


async def test_the_limit_is_checked_before_the_bytes_are_written(work_dir: Path) -> None:
    async def too_much() -> AsyncIterator[bytes]:
        yield bytes(60)
        yield bytes(60)

    with pytest.raises(LimitExceededError) as caught:
        async with Spool(work_dir, 100).filled(too_much()):
            pass

    assert caught.value.reason is Reason.TOO_LARGE
    assert not files_in(work_dir)
