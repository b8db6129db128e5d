"""A real engine, alone and behind a real socket."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from mesh.server import Service, running_server
from normalizer.capabilities import CapabilityProbe
from normalizer.ffmpeg_engine import FfmpegEngine, RecordingLimits
from normalizer.processes import ProcessLimits
from normalizer.servicer import NormalizerServicer
from normalizer.spool import Spool
from normalizer.voice_isolator import DEFAULT
from tests.support.polling import until
from ytcaption.v1 import normalizer_service_pb2 as pb
from ytcaption.v1 import normalizer_service_pb2_grpc as rpc

EngineMaker = Callable[..., FfmpegEngine]
ScriptMaker = Callable[[str], str]


@pytest.fixture
def work_dir(tmp_path: Path) -> Path:
    return tmp_path / "work"


@pytest.fixture
def make_engine(work_dir: Path) -> EngineMaker:
    def make(  # noqa: PLR0913 # one parameter for each thing a test varies
        ffmpeg: str = "",
        *,
        max_duration: float = 3600,
        stall_seconds: float = 300,
        max_spool_bytes: int = 2**30,
        max_recordings: int = 4,
        max_live_streams: int = 4,
        isolator: str = DEFAULT,
        max_memory: int = 2**31,
        max_cpu_seconds: int = 3600,
    ) -> FfmpegEngine:
        process_limits = ProcessLimits(max_memory, max_cpu_seconds)
        limits = RecordingLimits(timedelta(seconds=max_duration), stall_seconds, process_limits)
        spool = Spool(work_dir, max_spool_bytes)
        capabilities = CapabilityProbe(ffmpeg, isolator, process_limits)
        return FfmpegEngine(capabilities, limits, spool, max_recordings, max_live_streams)

    return make


@pytest.fixture
def engine(make_engine: EngineMaker) -> FfmpegEngine:
    return make_engine()


class WatchedServicer(NormalizerServicer):
    """The real servicer; counts its running calls."""

    under_way = 0

    async def Normalize(self, request_iterator: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        self.under_way += 1
        try:
            async with aclosing(super().Normalize(request_iterator, context)) as events:  # type: ignore[type-var]
                async for event in events:
                    yield event
        finally:
            self.under_way -= 1


@pytest.fixture
async def stub(engine: FfmpegEngine, work_dir: Path) -> AsyncIterator[rpc.NormalizerServiceStub]:
    servicer = WatchedServicer(engine, Spool(work_dir, 2**30))
    service = Service.of(
        pb.DESCRIPTOR.services_by_name["NormalizerService"],
        rpc.add_NormalizerServiceServicer_to_server,
        servicer,
    )
    async with (
        running_server([service], grace_seconds=0) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        yield rpc.NormalizerServiceStub(channel)
        await until(lambda: not servicer.under_way)


@pytest.fixture
def script(tmp_path: Path) -> ScriptMaker:
    """A program to run instead of ffmpeg, to force its failures."""

    def write(body: str) -> str:
        path = tmp_path / "ffmpeg"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return str(path)

    return write
