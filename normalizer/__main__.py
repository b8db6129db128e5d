"""Starts the normalizer: `python -m normalizer`."""

import asyncio
from datetime import timedelta

from structlog import get_logger

from mesh.callers import guarded_by
from mesh.server import Service
from mesh.service import run_process, serve
from normalizer.capabilities import CapabilityProbe
from normalizer.ffmpeg_engine import FfmpegEngine, RecordingLimits
from normalizer.processes import ProcessLimits
from normalizer.servicer import NormalizerServicer
from normalizer.settings import Settings
from normalizer.spool import Spool
from ytcaption.v1 import normalizer_service_pb2 as pb
from ytcaption.v1 import normalizer_service_pb2_grpc as rpc

log = get_logger(__name__)


async def main(settings: Settings) -> None:
    """Builds the service and serves it."""
    spool = Spool(settings.work_dir, settings.max_spool_bytes)
    process_limits = ProcessLimits(settings.max_memory_bytes, settings.max_cpu_seconds)
    limits = RecordingLimits(
        max_duration=timedelta(seconds=settings.max_duration_seconds),
        stall_seconds=settings.stall_seconds,
        process=process_limits,
        max_gap_seconds=settings.max_gap_seconds,
    )
    capabilities = CapabilityProbe(settings.ffmpeg, settings.voice_isolator, process_limits)
    engine = FfmpegEngine(
        capabilities, limits, spool, settings.max_recordings, settings.max_live_streams
    )

    async def get_ready() -> None:
        purged = await asyncio.to_thread(spool.scratch.purge, dry_run=False)
        path = await capabilities.ffmpeg()
        log.info("found ffmpeg", path=path, old_files_removed=purged.files)

    service = Service.of(
        pb.DESCRIPTOR.services_by_name["NormalizerService"],
        rpc.add_NormalizerServiceServicer_to_server,
        NormalizerServicer(engine, spool),
    )
    await serve(settings, [guarded_by(settings.token_file, service)], get_ready)


if __name__ == "__main__":
    run_process("normalizer", Settings, main)
