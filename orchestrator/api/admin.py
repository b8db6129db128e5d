"""AdminService: statistics, health, dead letters, cleanup and factory reset for operators."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, timedelta
from importlib.metadata import version
from time import monotonic
from typing import Any

from structlog.contextvars import bind_contextvars

from mesh.identity import current
from orchestrator.access.audit import Audit, AuditQuery
from orchestrator.jobs.dead_letters import DeadLetterFilter, DeadLetters
from orchestrator.jobs.replay import Replays
from orchestrator.jobs.validation import check_duration
from orchestrator.maintenance.erasure import Erasure, ErasureState
from orchestrator.maintenance.export import MEDIA_TYPE, OwnerExports
from orchestrator.maintenance.log_files import LogFiles, LogsRemoved
from orchestrator.maintenance.owners import OwnerStore
from orchestrator.maintenance.reset import FactoryReset
from orchestrator.maintenance.retention import Retention, moment_before
from orchestrator.tasks.registry import Load, Registry
from orchestrator.webhooks.deliveries import Deliveries
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import admin_service_pb2_grpc as rpc
from ytcaption.v1 import job_pb2

VERSION = version("ytcaption")
MAX_ERROR = 2000


@dataclass(frozen=True, slots=True)
class AdminServicer(rpc.AdminServiceServicer):
    """Translates between messages and engines; decides nothing."""

    stats: Callable[[], Awaitable[pb.GetStatsResponse]]
    health: Callable[[], Awaitable[list[pb.ComponentHealth]]]
    dead_letters: DeadLetters
    replays: Replays
    deliveries: Deliveries
    retention: Retention
    log_files: LogFiles
    factory_reset: FactoryReset
    limits: job_pb2.Limits
    audit: Audit
    erasure: Erasure
    exports: OwnerExports
    owners: OwnerStore
    types: Registry
    task_load: Load | None = None
    began: float = field(default_factory=monotonic)

    async def GetStats(self, request: pb.GetStatsRequest, context: Any) -> pb.GetStatsResponse:
        stats = await self.stats()
        stats.version = VERSION
        stats.uptime.FromTimedelta(timedelta(seconds=monotonic() - self.began))
        stats.limits.CopyFrom(self.limits)
        return stats

    async def GetHealth(self, request: pb.GetHealthRequest, context: Any) -> pb.GetHealthResponse:
        found = await self.health()
        return pb.GetHealthResponse(
            healthy=all(part.healthy for part in found), version=VERSION, components=found
        )

    async def ListDeadLetters(
        self, request: pb.ListDeadLettersRequest, context: Any
    ) -> pb.ListDeadLettersResponse:
        page = await self.dead_letters.page(request.page_size, request.page_token, request.reason)
        total = await self.dead_letters.count(request.reason) if request.count else 0
        return pb.ListDeadLettersResponse(
            dead_letters=page.items, next_page_token=page.next_token, total_size=total
        )

    async def ReplayDeadLetter(
        self, request: pb.ReplayDeadLetterRequest, context: Any
    ) -> pb.ReplayDeadLetterResponse:
        bind_contextvars(job_id=request.job_id)
        return pb.ReplayDeadLetterResponse(job=await self.replays.replay(request.job_id))

    async def PurgeDeadLetters(
        self, request: pb.PurgeDeadLettersRequest, context: Any
    ) -> pb.PurgeDeadLettersResponse:
        before = request.before.ToDatetime(UTC) if request.HasField("before") else None
        choice = DeadLetterFilter(request.job_id, request.reason, before, current().scope)
        removed = await self.dead_letters.purge(choice, dry_run=request.dry_run)
        return pb.PurgeDeadLettersResponse(dead_letters_removed=removed)

    async def ListWebhookDeliveries(
        self, request: pb.ListWebhookDeliveriesRequest, context: Any
    ) -> pb.ListWebhookDeliveriesResponse:
        page = await self.deliveries.page(
            request.page_size, request.page_token, request.job_id, request.collection_id
        )
        return pb.ListWebhookDeliveriesResponse(
            deliveries=page.items, next_page_token=page.next_token
        )

    async def ListAudit(self, request: pb.ListAuditRequest, context: Any) -> pb.ListAuditResponse:
        query = AuditQuery(
            request.subject,
            request.start_time.ToDatetime(UTC) if request.HasField("start_time") else None,
            request.end_time.ToDatetime(UTC) if request.HasField("end_time") else None,
        )
        page = await self.audit.page(request.page_size, request.page_token, query)
        return pb.ListAuditResponse(entries=page.items, next_page_token=page.next_token)

    async def Cleanup(self, request: pb.CleanupRequest, context: Any) -> pb.CleanupResponse:
        max_age = (
            check_duration(request.max_age, "max_age") if request.HasField("max_age") else None
        )
        removed = await self.retention.cleanup(max_age, dry_run=request.dry_run)
        logs, before = None, moment_before(max_age)
        if request.logs and before is not None:
            logs = await self.log_files.remove(before, dry_run=request.dry_run)
        cleaned = logs or LogsRemoved()
        return pb.CleanupResponse(
            jobs_removed=removed.jobs,
            events_removed=removed.events,
            artifacts_removed=removed.files,
            bytes_removed=removed.size + cleaned.size,
            collections_removed=removed.collections,
            log_files_removed=cleaned.files,
            logs_cleaned=logs is not None,
        )

    async def FactoryReset(
        self, request: pb.FactoryResetRequest, context: Any
    ) -> pb.FactoryResetResponse:
        services = await self.factory_reset.run(request.confirmation, dry_run=request.dry_run)
        return pb.FactoryResetResponse(
            services=[
                pb.ServiceReset(
                    name=service.name,
                    done=not service.errors,
                    error="; ".join(service.errors)[:MAX_ERROR],
                    jobs_removed=service.removed.jobs,
                    files_removed=service.removed.files,
                    tasks_purged=service.removed.work_items,
                    bytes_removed=service.removed.size,
                    collections_removed=service.removed.collections,
                    logs_cleaned=service.logs_cleaned,
                )
                for service in services
            ]
        )

    async def ExportOwner(
        self, request: pb.ExportOwnerRequest, context: Any
    ) -> AsyncIterator[pb.ExportOwnerResponse]:
        export = await self.exports.export(request.owner)
        progress = export.progress
        yield pb.ExportOwnerResponse(
            media_type=MEDIA_TYPE, file_name=export.file_name, total=progress.total
        )
        async with aclosing(export.frames) as frames:
            async for frame in frames:
                yield pb.ExportOwnerResponse(chunk=frame, done=progress.done, total=progress.total)

    async def EraseOwner(
        self, request: pb.EraseOwnerRequest, context: Any
    ) -> AsyncIterator[pb.EraseOwnerResponse]:
        if request.dry_run:
            yield _erasure(await self.erasure.dry_run(request.owner, request.confirmation))
            return
        async with aclosing(self.erasure.erase(request.owner, request.confirmation)) as states:
            async for state in states:
                yield _erasure(state)

    async def SetOwnerRetention(
        self, request: pb.SetOwnerRetentionRequest, context: Any
    ) -> pb.SetOwnerRetentionResponse:
        age = (
            check_duration(request.retention, "retention")
            if request.HasField("retention")
            else None
        )
        set_ = await self.owners.set_retention(request.owner, age)
        return pb.SetOwnerRetentionResponse(retention=set_)

    async def ListOwnerRetentions(
        self, request: pb.ListOwnerRetentionsRequest, context: Any
    ) -> pb.ListOwnerRetentionsResponse:
        return pb.ListOwnerRetentionsResponse(retentions=await self.owners.retentions())

    async def RegisterType(
        self, request: pb.RegisterTypeRequest, context: Any
    ) -> pb.RegisterTypeResponse:
        return pb.RegisterTypeResponse(type=await self.types.register(request))

    async def UnregisterType(
        self, request: pb.UnregisterTypeRequest, context: Any
    ) -> pb.UnregisterTypeResponse:
        removed = await self.types.unregister(request.role, request.type)
        return pb.UnregisterTypeResponse(removed=removed)

    async def ListTypes(self, request: pb.ListTypesRequest, context: Any) -> pb.ListTypesResponse:
        return pb.ListTypesResponse(types=await self.types.listed(request.role, self.task_load))


def _erasure(state: ErasureState) -> pb.EraseOwnerResponse:
    return pb.EraseOwnerResponse(
        phase=state.phase,
        done=state.done,
        total=state.total,
        removed=state.removed,
        finished=state.finished,
        remarks=state.remarks,
    )
