"""A call that ends, for whatever reason, leaves no process and no file."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from normalizer.engine import Request, Samples
from normalizer.ffmpeg_engine import FfmpegEngine
from tests.normalizer.media import endless_wav, files_in, recording, sent, slow_m4a
from tests.support.polling import still, until
from tests.support.processes import Newborn
from ytcaption.v1 import normalizer_service_pb2 as pb
from ytcaption.v1 import normalizer_service_pb2_grpc as rpc

START = pb.NormalizeRequest(start=pb.NormalizeStart(job_id="j1", keep_audio=True))


async def stuck_after(chunk: bytes) -> AsyncIterator[pb.NormalizeRequest]:
    """A caller that stops sending but keeps the call open."""
    yield START
    yield pb.NormalizeRequest(chunk=chunk)
    await asyncio.Event().wait()


async def test_cancelling_kills_an_ffmpeg_that_waits_for_input(
    stub: rpc.NormalizerServiceStub, newborn: Newborn
) -> None:
    call = stub.Normalize(stuck_after(recording("wav")[:60_000]))
    await until(lambda: bool(newborn()))
    call.cancel()

    await until(lambda: not newborn())


async def test_cancelling_kills_an_ffmpeg_whose_output_is_not_read(
    stub: rpc.NormalizerServiceStub, newborn: Newborn
) -> None:
    async def sending() -> AsyncIterator[pb.NormalizeRequest]:
        yield START
        for chunk in endless_wav(400 * 1024 * 1024):
            yield pb.NormalizeRequest(chunk=chunk)

    call = stub.Normalize(sending())
    await call.read()
    await until(lambda: bool(newborn()))
    (ffmpeg,) = newborn()
    await still(lambda: _ticks(ffmpeg))
    call.cancel()

    await until(lambda: not newborn())


def _ticks(process: psutil.Process) -> int:
    """Processor time used so far, in hundredths of a second."""
    times = process.cpu_times()
    return round(100 * (times.user + times.system))


async def test_a_deadline_kills_ffmpeg_too(
    stub: rpc.NormalizerServiceStub, newborn: Newborn
) -> None:
    for seconds in (1, 5, 25):  # on a busy machine ffmpeg may take longer to start
        call = stub.Normalize(stuck_after(recording("wav")[:60_000]), timeout=seconds)
        await until(lambda call=call: bool(newborn()) or call.done())
        if newborn():
            break
    await until(call.done)

    await until(lambda: not newborn())


async def test_cancelling_while_spooling_removes_the_file(
    stub: rpc.NormalizerServiceStub, work_dir: Path
) -> None:
    call = stub.Normalize(stuck_after(slow_m4a()[:30_000]))
    await until(lambda: bool(files_in(work_dir)))
    call.cancel()

    await until(lambda: not files_in(work_dir))


@pytest.mark.parametrize("make", [lambda: recording("wav"), slow_m4a], ids=["piped", "spooled"])
async def test_closing_the_engine_midway_leaves_nothing(
    engine: FfmpegEngine, newborn: Newborn, work_dir: Path, make: Callable[[], bytes]
) -> None:
    events = engine.normalize(sent(make()), Request(keep_audio=True))
    async for event in events:
        if isinstance(event, Samples):
            break
    await events.aclose()

    assert not newborn()
    assert not files_in(work_dir)


@pytest.mark.parametrize("make", [lambda: recording("wav"), slow_m4a], ids=["piped", "spooled"])
async def test_a_finished_call_leaves_nothing(
    engine: FfmpegEngine, newborn: Newborn, work_dir: Path, make: Callable[[], bytes]
) -> None:
    async for _ in engine.normalize(sent(make()), Request(keep_audio=True)):
        pass

    assert not newborn()
    assert not files_in(work_dir)
