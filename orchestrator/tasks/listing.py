"""Lists channels, playlists and searches by way of the downloader."""

from collections.abc import AsyncGenerator

import grpc

from mesh.correlation import call_metadata
from mesh.status import to_error
from orchestrator.pipeline.stages import Stages
from orchestrator.settings import Settings
from orchestrator.worker.readiness import Readiness
from orchestrator.worker.retry import Backoff
from ytcaption.v1 import downloader_service_pb2 as downloader_pb
from ytcaption.v1 import job_pb2


class Lister:
    """Lists sources by way of the downloader."""

    def __init__(self, stages: Stages, readiness: Readiness, settings: Settings) -> None:
        self._stages = stages
        self._readiness = readiness
        self._settings = settings
        self.backoff = Backoff(settings.retry_seconds, settings.retry_limit_seconds)
        self.max_attempts = settings.max_attempts

    async def listed(
        self, request: downloader_pb.ResolveRequest
    ) -> AsyncGenerator[downloader_pb.ResolveResponse, None]:
        """Recordings as they are found; MeshError if the listing breaks off."""
        circuit = self._stages.circuits[job_pb2.STAGE_DOWNLOAD]
        async with circuit.permit() as passage:
            call = self._stages.downloader.Resolve(
                request, timeout=self._settings.job_seconds, metadata=call_metadata()
            )
            try:
                async for response in call:
                    passage.answered()
                    yield response
                passage.answered()
            except grpc.aio.AioRpcError as error:
                failure = to_error(error)
                passage.failed(failure)
                raise failure from error
            finally:
                call.cancel()

    async def until_possible(self) -> None:
        """Waits until the downloader is ready; costs no attempt."""
        if not await self._readiness.can_fetch():
            await self._readiness.until_can_fetch()
