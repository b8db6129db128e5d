"""gRPC face of the orchestrator for the people who run it."""

from collections.abc import Awaitable, Callable
from datetime import UTC, timedelta
from importlib.metadata import version
from time import monotonic
from typing import Any

from google.protobuf.duration import from_timedelta, to_timedelta
from google.protobuf.duration_pb2 import Duration
from structlog.contextvars import bind_contextvars

from mesh.errors import InvalidRequestError
from mesh.reasons import Reason
from orchestrator.deadletters import Choice, DeadLetters
from orchestrator.health import Health
from orchestrator.housekeeping import Housekeeper
from orchestrator.replay import Replays
from orchestrator.reset import FactoryReset
from orchestrator.stats import Stats
from orchestrator.webhooks.deliveries import Deliveries
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import admin_service_pb2_grpc as rpc
from ytcaption.v1 import job_pb2

VERSION = version("ytcaption")
MAX_ERROR = 2000


class AdminServicer(rpc.AdminServiceServicer):
    """Translates between the wire and the engines; decides nothing itself."""

    def __init__(  # noqa: PLR0913 # one engine for each group of rpcs
        self,
        stats: Callable[[], Awaitable[Stats]],
        health: Callable[[], Awaitable[list[Health]]],
        dead_letters: DeadLetters,
        replays: Replays,
        deliveries: Deliveries,
        housekeeper: Housekeeper,
        factory_reset: FactoryReset,
        limits: job_pb2.Limits,
    ) -> None:
        self._stats = stats
        self._limits = limits
        self._health = health
        self._dead_letters = dead_letters
        self._replays = replays
        self._deliveries = deliveries
        self._housekeeper = housekeeper
        self._factory_reset = factory_reset
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
            limits=self._limits,
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
                    preparing=part.preparing,
                )
                for part in found
            ],
        )

    async def ListDeadLetters(
        self, request: pb.ListDeadLettersRequest, context: Any
    ) -> pb.ListDeadLettersResponse:
        page = await self._dead_letters.page(request.page_size, request.page_token, request.reason)
        return pb.ListDeadLettersResponse(
            dead_letters=page.letters, next_page_token=page.next_token
        )

    async def ReplayDeadLetter(
        self, request: pb.ReplayDeadLetterRequest, context: Any
    ) -> pb.ReplayDeadLetterResponse:
        bind_contextvars(job_id=request.job_id)
        return pb.ReplayDeadLetterResponse(job=await self._replays.replay(request.job_id))

    async def PurgeDeadLetters(
        self, request: pb.PurgeDeadLettersRequest, context: Any
    ) -> pb.PurgeDeadLettersResponse:
        before = request.before.ToDatetime(UTC) if request.HasField("before") else None
        choice = Choice(request.job_id, request.reason, before)
        removed = await self._dead_letters.purge(choice, dry_run=request.dry_run)
        return pb.PurgeDeadLettersResponse(dead_letters_removed=removed)

    async def ListWebhookDeliveries(
        self, request: pb.ListWebhookDeliveriesRequest, context: Any
    ) -> pb.ListWebhookDeliveriesResponse:
        page = await self._deliveries.page(
            request.page_size, request.page_token, request.job_id, request.collection_id
        )
        return pb.ListWebhookDeliveriesResponse(
            deliveries=page.deliveries, next_page_token=page.next_token
        )

    async def Cleanup(self, request: pb.CleanupRequest, context: Any) -> pb.CleanupResponse:
        max_age = _age(request.max_age) if request.HasField("max_age") else None
        swept = await self._housekeeper.cleanup(max_age, dry_run=request.dry_run)
        return pb.CleanupResponse(
            jobs_removed=swept.jobs,
            events_removed=swept.events,
            artifacts_removed=swept.artifacts,
            bytes_removed=swept.size,
            collections_removed=swept.collections,
        )

    async def FactoryReset(
        self, request: pb.FactoryResetRequest, context: Any
    ) -> pb.FactoryResetResponse:
        services = await self._factory_reset.run(request.confirmation, dry_run=request.dry_run)
        return pb.FactoryResetResponse(
            services=[
                pb.ServiceReset(
                    name=service.name,
                    done=not service.errors,
                    error="; ".join(service.errors)[:MAX_ERROR],
                    jobs_removed=service.jobs,
                    files_removed=service.files,
                    tasks_purged=service.tasks,
                    bytes_removed=service.size,
                    collections_removed=service.collections,
                )
                for service in services
            ]
        )


def _age(given: Duration) -> timedelta:
    try:
        return to_timedelta(given)
    except (OverflowError, ValueError) as error:
        raise InvalidRequestError(
            "max_age is no duration", reason=Reason.REQUEST_INVALID
        ) from error
