"""A real engine, alone and behind a real socket."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from mesh.server import Service, running_server
from normalizer.abilities import Abilities
from normalizer.child import Ceiling
from normalizer.ffmpeg import FfmpegNormalizer, Limits
from normalizer.isolator import DEFAULT
from normalizer.servicer import NormalizerServicer
from normalizer.spool import Spool
from tests.polling import until
from ytcaption.v1 import normalizer_service_pb2 as pb
from ytcaption.v1 import normalizer_service_pb2_grpc as rpc

EngineMaker = Callable[..., FfmpegNormalizer]
ScriptMaker = Callable[[str], str]


@pytest.fixture
def work_dir(tmp_path: Path) -> Path:
    return tmp_path / "work"


@pytest.fixture
def make_engine(work_dir: Path) -> EngineMaker:
    def make(  # noqa: PLR0913 # one knob for each thing a test wants to differ
        ffmpeg: str = "",
        *,
        max_duration: float = 3600,
        stall_seconds: float = 30,
        max_spool_bytes: int = 2**30,
        max_recordings: int = 4,
        isolator: str = DEFAULT,
        max_memory: int = 2**31,
        max_cpu_seconds: int = 3600,
    ) -> FfmpegNormalizer:
        ceiling = Ceiling(max_memory, max_cpu_seconds)
        limits = Limits(timedelta(seconds=max_duration), stall_seconds, ceiling)
        spool = Spool(work_dir, max_spool_bytes)
        abilities = Abilities(ffmpeg, isolator, ceiling)
        return FfmpegNormalizer(abilities, limits, spool, max_recordings)

    return make


@pytest.fixture
def engine(make_engine: EngineMaker) -> FfmpegNormalizer:
    return make_engine()


class WatchedServicer(NormalizerServicer):
    """The real one, and how many of its calls are under way."""

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
async def stub(
    engine: FfmpegNormalizer, work_dir: Path
) -> AsyncIterator[rpc.NormalizerServiceStub]:
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
        await until(lambda: not servicer.under_way, 5)


@pytest.fixture
def script(tmp_path: Path) -> ScriptMaker:
    """A program to be run instead of ffmpeg, to force its faults."""

    def write(body: str) -> str:
        path = tmp_path / "ffmpeg"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return str(path)

    return write
