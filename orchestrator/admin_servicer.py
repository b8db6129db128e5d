"""gRPC face of the orchestrator for the people who run it."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from importlib.metadata import version
from time import monotonic
from typing import Any

from google.protobuf.duration import from_timedelta

from orchestrator.health import Health
from orchestrator.stats import Stats
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import admin_service_pb2_grpc as rpc

VERSION = version("ytcaption")


class AdminServicer(rpc.AdminServiceServicer):
    """Translates between the wire and the engines; decides nothing itself."""

    def __init__(
        self, stats: Callable[[], Awaitable[Stats]], health: Callable[[], Awaitable[list[Health]]]
    ) -> None:
        self._stats = stats
        self._health = health
        self._began = monotonic()

    async def GetStats(self, request: pb.GetStatsRequest, context: Any) -> pb.GetStatsResponse:
        stats = await self._stats()
        return pb.GetStatsResponse(
            version=VERSION,
            jobs=[
                pb.StateCount(state=state, count=count)
                for state, count in sorted(stats.jobs.items())
            ],
            queue_depth=stats.queue_depth,
            dead_letters=stats.dead_letters,
            stored_bytes=stats.stored_bytes,
            uptime=from_timedelta(timedelta(seconds=monotonic() - self._began)),
        )

    async def GetHealth(self, request: pb.GetHealthRequest, context: Any) -> pb.GetHealthResponse:
        found = await self._health()
        return pb.GetHealthResponse(
            healthy=all(part.healthy for part in found),
            version=VERSION,
            components=[
                pb.ComponentHealth(
                    name=part.name,
                    healthy=part.healthy,
                    detail=part.detail,
                    address=part.address,
                )
                for part in found
            ],
        )
