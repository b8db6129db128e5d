"""Live streams that send next to nothing stop no other work, and end by themselves."""

# ruff: noqa: F811 # parameters that are fixtures, imported from another room

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import grpc
import pytest

from mesh.frames import truthful
from mesh.server import Service, running_server
from mesh.status import reason_of
from normalizer.capabilities import CapabilityProbe
from normalizer.ffmpeg_engine import FfmpegEngine, RecordingLimits
from normalizer.processes import ProcessLimits
from normalizer.spool import Spool
from normalizer.voice_isolator import DEFAULT
from tests.normalizer.conftest import WatchedServicer
from tests.normalizer.media import recording, sent
from tests.orchestrator.conftest import (  # noqa: F401 # fixtures
    Start,
    broker,
    grpc_core,
    patient,
    script,
    start,
)
from tests.support.polling import until
from ytcaption.v1 import job_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import normalizer_service_pb2_grpc as normalizer_rpc
from ytcaption.v1 import pipeline_service_pb2 as pb

SLOTS = 4
IDLE = SLOTS + 2


@asynccontextmanager
async def real_normalizer(folder: Path) -> AsyncIterator[tuple[str, WatchedServicer]]:
    """A normalizer with the usual slots, and its address."""
    process = ProcessLimits(2**31, 3600)
    limits = RecordingLimits(timedelta(hours=1), 300, process)
    spool = Spool(folder, 2**30)
    engine = FfmpegEngine(CapabilityProbe("", DEFAULT, process), limits, spool, SLOTS, SLOTS)
    servicer = WatchedServicer(engine, spool)
    service = Service.of(
        normalizer_pb.DESCRIPTOR.services_by_name["NormalizerService"],
        normalizer_rpc.add_NormalizerServiceServicer_to_server,
        servicer,
    )
    async with running_server([service], grace_seconds=0) as server:
        yield f"127.0.0.1:{server.port}", servicer
        await until(lambda: not servicer.under_way)


async def idle_frames(*chunks: bytes) -> AsyncIterator[pb.TranscribeStreamRequest]:
    """Opens a stream, sends a little, and stays."""
    yield pb.TranscribeStreamRequest(start=pb.TranscribeStreamStart())
    for chunk in chunks:
        yield pb.TranscribeStreamRequest(chunk=chunk)
    await asyncio.Event().wait()


@pytest.mark.parametrize("size", [100, 100_000], ids=["too little to begin", "half a recording"])
async def test_idle_streams_in_every_slot_hold_no_job_up(
    start: Start, tmp_path: Path, size: int
) -> None:
    wav = recording("wav")
    async with (
        real_normalizer(tmp_path) as (address, normalizer),
        start(normalizer=address) as client,
    ):
        pieces = [wav[:size][at : at + 50_000] for at in range(0, size, 50_000)]
        idle = [client.pipeline.TranscribeStream(idle_frames(*pieces)) for _ in range(IDLE)]
        await until(lambda: normalizer.under_way == IDLE)
        job = await client.upload(*[piece async for piece in sent(wav)])

        ended = await client.finished(job.job_id)

        assert ended.state == job_pb2.JOB_STATE_SUCCEEDED
        assert ended.attempt == 1
        assert normalizer.under_way == IDLE
        for call in idle:
            call.cancel()


async def dripping() -> AsyncIterator[pb.TranscribeStreamRequest]:
    yield pb.TranscribeStreamRequest(start=pb.TranscribeStreamStart())
    while True:
        yield pb.TranscribeStreamRequest(chunk=b"x")
        await asyncio.sleep(0.05)


async def never_starting() -> AsyncIterator[pb.TranscribeStreamRequest]:
    await asyncio.Event().wait()
    yield pb.TranscribeStreamRequest()


@pytest.mark.parametrize("frames", [dripping, never_starting, idle_frames])
async def test_a_stream_that_brings_next_to_nothing_is_refused_with_its_reason(
    start: Start, frames: Callable[[], AsyncIterator[pb.TranscribeStreamRequest]]
) -> None:
    async with start(live_idle_seconds=0.5) as client:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in truthful(client.pipeline.TranscribeStream(frames())):
                pass

    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert reason_of(caught.value) == "STALLED"
