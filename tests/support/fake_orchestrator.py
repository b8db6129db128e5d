"""A fake orchestrator on a real socket: its three services answer from scripts and record requests.

The scripts are lists of updates; see job_updates and collection_updates.
"""

# ruff: noqa: N802 # RPC names come from the proto

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import grpc

from mesh.errors import InvalidRequestError, MeshError, NotFoundError
from mesh.messages import copy_shared
from mesh.reasons import Reason
from mesh.server import Service, running_server
from tests.support.collection_updates import (
    COLLECTION_ID,
    COMPLETE,
    Update,
    collection,
    running_collection,
)
from tests.support.job_updates import EVENT_LOG, FAILED, JOB_ID, REPLAYED, duration, ended_job
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import admin_service_pb2_grpc as admin_rpc
from ytcaption.v1 import audit_pb2 as audit_pb
from ytcaption.v1 import auth_service_pb2 as auth_pb
from ytcaption.v1 import auth_service_pb2_grpc as auth_rpc
from ytcaption.v1 import collection_pb2, quota_pb2, task_pb2
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import collection_service_pb2_grpc as collection_rpc
from ytcaption.v1 import job_pb2 as job_pb
from ytcaption.v1 import media_pb2 as media_pb
from ytcaption.v1 import owner_pb2 as owner_pb
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import pipeline_service_pb2_grpc as rpc
from ytcaption.v1 import quota_service_pb2 as quota_api
from ytcaption.v1 import quota_service_pb2_grpc as quota_rpc
from ytcaption.v1 import search_service_pb2 as search_pb
from ytcaption.v1 import search_service_pb2_grpc as search_rpc
from ytcaption.v1 import token_pb2 as token_pb


class _Paged(Protocol):
    page_size: int
    page_token: str


class _Numbered(Protocol):
    @property
    def sequence(self) -> int: ...


T = TypeVar("T")
NumberedT = TypeVar("NumberedT", bound=_Numbered)


def _page(items: Sequence[T], request: _Paged, page_size: int = 2) -> tuple[Sequence[T], str]:
    """The items of a page, and the token of the next."""
    begin = int(request.page_token or 0)
    end = begin + min(request.page_size, page_size)
    return items[begin:end], str(end) if end < len(items) else ""


async def _go_away(context: Any) -> None:
    """Ends a call as a server does that goes away."""
    await context.abort(grpc.StatusCode.UNAVAILABLE, "going away")


async def _watch(
    event_log: Iterable[NumberedT], after_sequence: int, cut_after: list[int], context: Any
) -> AsyncIterator[NumberedT]:
    """The updates after a sequence number; cut off as the next entry of `cut_after` says."""
    left = cut_after.pop(0) if cut_after else None
    for update in event_log:
        if update.sequence and update.sequence <= after_sequence:
            continue
        if left == 0:
            await _go_away(context)
        yield update
        left = None if left is None else left - bool(update.sequence)


class FakePipeline(rpc.PipelineServiceServicer):
    """Every watch replays the event log; requests are recorded."""

    def __init__(self, event_log: list[pb.WatchJobResponse] | None = None) -> None:
        self.event_log = EVENT_LOG if event_log is None else event_log
        self.cut_after: list[int] = []
        """Each watch is cut off after this many stored events, until the list is empty."""

        self.stays_open = False
        """A watch does not end after the event log."""

        self.refusal: MeshError | None = None
        self.created: list[pb.CreateJobRequest] = []
        self.upload_start = pb.UploadStart()
        self.uploaded = b""
        self.largest_frame = 0
        self.watches: list[int] = []
        self.captions_requested: list[pb.GetCaptionsRequest] = []
        self.listed: list[pb.ListJobsRequest] = []
        self.jobs: list[job_pb.Job] = []
        self.pages: list[list[pb.WatchJobsResponse]] = []
        """The pages of each watch of the list; all watches but the last are cut off."""
        self.lists_watched: list[pb.WatchJobsRequest] = []
        self.cancelled: list[pb.CancelJobRequest] = []
        self.cancels_answer = True
        self.deleted: list[str] = []
        self.metadata: list[dict[str, str | bytes]] = []

    def _refuse(self, context: Any = None) -> None:
        if context is not None:
            self.metadata.append(dict(context.invocation_metadata()))
        if self.refusal is not None:
            raise self.refusal

    def _find(self, job_id: str) -> None:
        if job_id != JOB_ID:
            raise NotFoundError(f"no job {job_id}", reason=Reason.JOB_NOT_FOUND)

    async def CreateJob(self, request: pb.CreateJobRequest, context: Any) -> pb.CreateJobResponse:
        self._refuse(context)
        self.created.append(request)
        return pb.CreateJobResponse(job=job_pb.Job(job_id=JOB_ID, state=job_pb.JOB_STATE_QUEUED))

    async def CreateJobFromUpload(
        self, request_iterator: AsyncIterator[pb.CreateJobFromUploadRequest], context: Any
    ) -> pb.CreateJobFromUploadResponse:
        async for frame in request_iterator:
            self._refuse()
            if frame.WhichOneof("frame") == "start":
                self.upload_start = frame.start
            self.uploaded += frame.chunk
            self.largest_frame = max(self.largest_frame, len(frame.chunk))
        return pb.CreateJobFromUploadResponse(job=job_pb.Job(job_id=JOB_ID))

    async def GetJob(self, request: pb.GetJobRequest, context: Any) -> pb.GetJobResponse:
        self._refuse()
        self._find(request.job_id)
        return pb.GetJobResponse(job=self.jobs[0] if self.jobs else FAILED)

    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> pb.ListJobsResponse:
        self.listed.append(request)
        jobs, token = _page(self.jobs, request)
        return pb.ListJobsResponse(jobs=jobs, next_page_token=token)

    async def WatchJobs(
        self, request: pb.WatchJobsRequest, context: Any
    ) -> AsyncIterator[pb.WatchJobsResponse]:
        self.lists_watched.append(request)
        for page in self.pages.pop(0):
            yield page
        if self.pages:
            await _go_away(context)
        await asyncio.Event().wait()

    async def WatchJob(
        self, request: pb.WatchJobRequest, context: Any
    ) -> AsyncIterator[pb.WatchJobResponse]:
        self._refuse()
        self._find(request.job_id)
        self.watches.append(request.after_sequence)
        yield pb.WatchJobResponse(job=job_pb.Job(job_id=JOB_ID, state=job_pb.JOB_STATE_RUNNING))
        updates = _watch(self.event_log, request.after_sequence, self.cut_after, context)
        async for update in updates:
            yield update
        if self.stays_open:
            await asyncio.Event().wait()

    async def CancelJob(self, request: pb.CancelJobRequest, context: Any) -> pb.CancelJobResponse:
        self._refuse()
        self._find(request.job_id)
        self.cancelled.append(request)
        if not self.cancels_answer:
            await asyncio.Event().wait()
        return pb.CancelJobResponse(job=ended_job(job_pb.JOB_STATE_CANCELLED))

    async def DeleteJob(self, request: pb.DeleteJobRequest, context: Any) -> pb.DeleteJobResponse:
        self._find(request.job_id)
        self.deleted.append(request.job_id)
        return pb.DeleteJobResponse(events_removed=7, artifacts_removed=1)

    async def GetCaptions(
        self, request: pb.GetCaptionsRequest, context: Any
    ) -> pb.GetCaptionsResponse:
        self.captions_requested.append(request)
        name = media_pb.CaptionFormat.Name(request.format).removeprefix("CAPTION_FORMAT_")
        return pb.GetCaptionsResponse(content=f"{name} of {request.job_id}\n".encode())

    async def DownloadArtifact(
        self, request: pb.DownloadArtifactRequest, context: Any
    ) -> AsyncIterator[pb.DownloadArtifactResponse]:
        raise NotImplementedError
        yield

    async def TranscribeStream(
        self, request_iterator: AsyncIterator[pb.TranscribeStreamRequest], context: Any
    ) -> AsyncIterator[pb.TranscribeStreamResponse]:
        raise NotImplementedError
        yield

    async def RepeatJob(self, request: pb.RepeatJobRequest, context: Any) -> pb.RepeatJobResponse:
        raise NotImplementedError

    async def GetAbilities(
        self, request: pb.GetAbilitiesRequest, context: Any
    ) -> pb.GetAbilitiesResponse:
        raise NotImplementedError


class FakeCollections(collection_rpc.CollectionServiceServicer):
    """Every watch replays the event log; requests are recorded."""

    def __init__(self, event_log: Iterable[Update] = COMPLETE) -> None:
        self.event_log = list(event_log)
        self.cut_after: list[int] = []
        """Each watch is cut off after this many stored updates, until the list is empty."""

        self.stays_open_after: int | None = None
        """A watch sends no more than this many updates, and does not end."""

        self.snapshot = running_collection()
        self.refusal: MeshError | None = None
        self.report = b"%REPORT\xff"
        self.report_name = "October.pdf"
        self.listed: list[collection_pb2.Collection] = []
        self.members: list[collection_pb2.Member] = []
        self.subtasks: list[task_pb2.Subtask] = []
        self.documents: list[task_pb2.Document] = []
        self.created: list[collection_pb.CreateCollectionRequest] = []
        self.watches: list[int] = []
        self.cancelled: list[collection_pb.CancelCollectionRequest] = []
        self.cancels_answer = True
        self.deleted: list[str] = []
        self.reports: list[collection_pb.GetReportRequest] = []
        self.pages: list[collection_pb.GetCollectionRequest] = []

    def _find(self, collection_id: str) -> None:
        if collection_id != COLLECTION_ID:
            message = f"no collection {collection_id}"
            raise NotFoundError(message, reason=Reason.COLLECTION_NOT_FOUND)

    async def CreateCollection(
        self, request: collection_pb.CreateCollectionRequest, context: Any
    ) -> collection_pb.CreateCollectionResponse:
        if self.refusal is not None:
            raise self.refusal
        self.created.append(request)
        return collection_pb.CreateCollectionResponse(collection=self.snapshot)

    async def GetCollection(
        self, request: collection_pb.GetCollectionRequest, context: Any
    ) -> collection_pb.GetCollectionResponse:
        self._find(request.collection_id)
        self.pages.append(request)
        members, token = _page(self.members, request, page_size=200)
        return collection_pb.GetCollectionResponse(
            collection=self.snapshot, members=members, next_page_token=token
        )

    async def ListCollections(
        self, request: collection_pb.ListCollectionsRequest, context: Any
    ) -> collection_pb.ListCollectionsResponse:
        collections, token = _page(self.listed, request)
        return collection_pb.ListCollectionsResponse(collections=collections, next_page_token=token)

    async def WatchCollections(
        self, request: collection_pb.WatchCollectionsRequest, context: Any
    ) -> AsyncIterator[collection_pb.WatchCollectionsResponse]:
        for end in range(len(self.listed) + 1):
            yield collection_pb.WatchCollectionsResponse(collections=self.listed[:end])
        await asyncio.Event().wait()

    async def WatchCollection(
        self, request: collection_pb.WatchCollectionRequest, context: Any
    ) -> AsyncIterator[Update]:
        self._find(request.collection_id)
        self.watches.append(request.after_sequence)
        yield Update(collection=self.snapshot)
        event_log = self.event_log[: self.stays_open_after]
        async for update in _watch(event_log, request.after_sequence, self.cut_after, context):
            yield update
        if self.stays_open_after is not None:
            await asyncio.Event().wait()

    async def CancelCollection(
        self, request: collection_pb.CancelCollectionRequest, context: Any
    ) -> collection_pb.CancelCollectionResponse:
        self._find(request.collection_id)
        self.cancelled.append(request)
        if not self.cancels_answer:
            await asyncio.Event().wait()
        done = collection(collection_pb2.COLLECTION_STATE_CANCELLED, 2, cancel_note=request.note)
        return collection_pb.CancelCollectionResponse(collection=done)

    async def DeleteCollection(
        self, request: collection_pb.DeleteCollectionRequest, context: Any
    ) -> collection_pb.DeleteCollectionResponse:
        self._find(request.collection_id)
        self.deleted.append(request.collection_id)
        return collection_pb.DeleteCollectionResponse(jobs_removed=2)

    async def ListSubtasks(
        self, request: collection_pb.ListSubtasksRequest, context: Any
    ) -> collection_pb.ListSubtasksResponse:
        self._find(request.collection_id)
        subtasks, token = _page(self.subtasks, request)
        return collection_pb.ListSubtasksResponse(subtasks=subtasks, next_page_token=token)

    async def ListDocuments(
        self, request: collection_pb.ListDocumentsRequest, context: Any
    ) -> collection_pb.ListDocumentsResponse:
        self._find(request.collection_id)
        documents, token = _page(self.documents, request)
        return collection_pb.ListDocumentsResponse(documents=documents, next_page_token=token)

    async def GetResultFile(
        self, request: collection_pb.GetResultFileRequest, context: Any
    ) -> AsyncIterator[collection_pb.GetResultFileResponse]:
        self._find(request.collection_id)
        found = [one for one in self.subtasks if one.number == request.subtask]
        files = [one for subtask in found for one in subtask.files if one.name == request.name]
        if not files:
            raise NotFoundError("no such file", reason=Reason.ARTIFACT_NOT_FOUND)
        yield collection_pb.GetResultFileResponse(file=files[0])
        yield collection_pb.GetResultFileResponse(chunk=self.report)

    async def GetReport(
        self, request: collection_pb.GetReportRequest, context: Any
    ) -> AsyncIterator[collection_pb.GetReportResponse]:
        self._find(request.collection_id)
        self.reports.append(request)
        yield collection_pb.GetReportResponse(
            chunk=self.report[:3], media_type="application/pdf", file_name=self.report_name
        )
        yield collection_pb.GetReportResponse(chunk=self.report[3:])


class FakeAdmin(admin_rpc.AdminServiceServicer):
    """Holds dead letters and webhook deliveries; claims to remove things, and removes nothing."""

    def __init__(self) -> None:
        self.healthy = True
        self.cleanups: list[admin_pb.CleanupRequest] = []
        self.audits: list[admin_pb.ListAuditRequest] = []
        self.resets: list[admin_pb.FactoryResetRequest] = []
        self.stage_error = ""
        """Why the downloader could not be reset."""
        self.letters: list[job_pb.DeadLetter] = []
        """Newest first."""

        self.listed: list[admin_pb.ListDeadLettersRequest] = []
        self.replayed: list[str] = []
        self.purged: list[admin_pb.PurgeDeadLettersRequest] = []
        self.deliveries: list[admin_pb.WebhookDelivery] = []
        self.deliveries_requested: list[admin_pb.ListWebhookDeliveriesRequest] = []
        self.exported: list[str] = []
        self.export_frames: list[bytes] = [b"PK", b"the rest"]
        self.export_stalls = False
        """An export never ends."""
        self.erased: list[admin_pb.EraseOwnerRequest] = []
        self.remarks: list[str] = []
        self.retentions: dict[str, owner_pb.OwnerRetention] = {}
        self.types: dict[tuple[int, str], task_pb2.RegisteredType] = {}

    async def ListWebhookDeliveries(
        self, request: admin_pb.ListWebhookDeliveriesRequest, context: Any
    ) -> admin_pb.ListWebhookDeliveriesResponse:
        self.deliveries_requested.append(request)
        deliveries, token = _page(self.deliveries, request)
        return admin_pb.ListWebhookDeliveriesResponse(deliveries=deliveries, next_page_token=token)

    async def ListDeadLetters(
        self, request: admin_pb.ListDeadLettersRequest, context: Any
    ) -> admin_pb.ListDeadLettersResponse:
        self.listed.append(request)
        wanted = [one for one in self.letters if request.reason in ("", one.failure.reason)]
        letters, token = _page(wanted, request)
        return admin_pb.ListDeadLettersResponse(
            dead_letters=letters,
            next_page_token=token,
            total_size=len(wanted) if request.count else 0,
        )

    async def ReplayDeadLetter(
        self, request: admin_pb.ReplayDeadLetterRequest, context: Any
    ) -> admin_pb.ReplayDeadLetterResponse:
        known = {letter.letter_id or letter.job_id: letter for letter in self.letters}
        if request.job_id not in known:
            raise NotFoundError(
                f"no dead letter of {request.job_id}", reason=Reason.DEAD_LETTER_NOT_FOUND
            )
        self.replayed.append(request.job_id)
        if not known[request.job_id].job_id:
            return admin_pb.ReplayDeadLetterResponse()
        return admin_pb.ReplayDeadLetterResponse(job=REPLAYED)

    async def PurgeDeadLetters(
        self, request: admin_pb.PurgeDeadLettersRequest, context: Any
    ) -> admin_pb.PurgeDeadLettersResponse:
        self.purged.append(request)
        return admin_pb.PurgeDeadLettersResponse(dead_letters_removed=len(self.letters))

    async def ExportOwner(
        self, request: admin_pb.ExportOwnerRequest, context: Any
    ) -> AsyncIterator[admin_pb.ExportOwnerResponse]:
        self.exported.append(request.owner)
        total = len(self.export_frames)
        yield admin_pb.ExportOwnerResponse(
            media_type="application/zip", file_name="ytcaption ana.zip", total=total
        )
        for done, frame in enumerate(self.export_frames):
            yield admin_pb.ExportOwnerResponse(chunk=frame, done=done, total=total)
        if self.export_stalls:
            await asyncio.Event().wait()

    async def EraseOwner(
        self, request: admin_pb.EraseOwnerRequest, context: Any
    ) -> AsyncIterator[admin_pb.EraseOwnerResponse]:
        if request.confirmation != f"ERASE {request.owner}":
            raise InvalidRequestError("not confirmed", reason=Reason.CONFIRMATION_MISSING)
        self.erased.append(request)
        removed = owner_pb.ErasedCounts(jobs=2, files=3, bytes=2_500_000)
        if not request.dry_run:
            yield admin_pb.EraseOwnerResponse(phase=owner_pb.ERASURE_PHASE_CONTENT, total=2)
        yield admin_pb.EraseOwnerResponse(removed=removed, finished=True, remarks=self.remarks)

    async def SetOwnerRetention(
        self, request: admin_pb.SetOwnerRetentionRequest, context: Any
    ) -> admin_pb.SetOwnerRetentionResponse:
        found = owner_pb.OwnerRetention(owner=request.owner)
        if request.HasField("retention"):
            found.retention.CopyFrom(request.retention)
            self.retentions[request.owner] = found
        else:
            self.retentions.pop(request.owner, None)
        return admin_pb.SetOwnerRetentionResponse(retention=found)

    async def ListOwnerRetentions(
        self, request: admin_pb.ListOwnerRetentionsRequest, context: Any
    ) -> admin_pb.ListOwnerRetentionsResponse:
        return admin_pb.ListOwnerRetentionsResponse(retentions=self.retentions.values())

    async def RegisterType(
        self, request: admin_pb.RegisterTypeRequest, context: Any
    ) -> admin_pb.RegisterTypeResponse:
        found = task_pb2.RegisteredType(healthy=True, removable=True)
        copy_shared(request, found)
        self.types[request.role, request.type] = found
        return admin_pb.RegisterTypeResponse(type=found)

    async def UnregisterType(
        self, request: admin_pb.UnregisterTypeRequest, context: Any
    ) -> admin_pb.UnregisterTypeResponse:
        removed = self.types.pop((request.role, request.type), None) is not None
        return admin_pb.UnregisterTypeResponse(removed=removed)

    async def ListTypes(
        self, request: admin_pb.ListTypesRequest, context: Any
    ) -> admin_pb.ListTypesResponse:
        return admin_pb.ListTypesResponse(types=self.types.values())

    async def GetHealth(
        self, request: admin_pb.GetHealthRequest, context: Any
    ) -> admin_pb.GetHealthResponse:
        part = admin_pb.ComponentHealth(
            name="nats", healthy=self.healthy, detail="speaks \x1b[31mred", address="127.0.0.1:1"
        )
        return admin_pb.GetHealthResponse(healthy=self.healthy, version="1", components=[part])

    async def GetStats(
        self, request: admin_pb.GetStatsRequest, context: Any
    ) -> admin_pb.GetStatsResponse:
        done = admin_pb.StateCount(state=job_pb.JOB_STATE_SUCCEEDED, count=3)
        return admin_pb.GetStatsResponse(
            version="1",
            jobs=[done],
            queue_depth=2,
            dead_letters=1,
            stored_bytes=2_500_000,
            uptime=duration(3661.5),
        )

    async def Cleanup(
        self, request: admin_pb.CleanupRequest, context: Any
    ) -> admin_pb.CleanupResponse:
        self.cleanups.append(request)
        return admin_pb.CleanupResponse(
            jobs_removed=4,
            collections_removed=3,
            events_removed=50,
            artifacts_removed=0,
            bytes_removed=2_500_000,
            log_files_removed=2 * request.logs,
            logs_cleaned=request.logs,
        )

    async def ListAudit(
        self, request: admin_pb.ListAuditRequest, context: Any
    ) -> admin_pb.ListAuditResponse:
        self.audits.append(request)
        entry = audit_pb.AuditEntry(
            sequence=7,
            subject="ana",
            peer="ipv4:127.0.0.1:4",
            client="192.0.2.7",
            method="PipelineService/DeleteJob",
            object_ids=[JOB_ID],
            reason="JOB_NOT_FOUND",
        )
        return admin_pb.ListAuditResponse(entries=[entry])

    async def FactoryReset(
        self, request: admin_pb.FactoryResetRequest, context: Any
    ) -> admin_pb.FactoryResetResponse:
        if request.confirmation != "ERASE EVERYTHING":
            raise InvalidRequestError("not confirmed", reason=Reason.CONFIRMATION_MISSING)
        self.resets.append(request)
        own = admin_pb.ServiceReset(
            name="orchestrator", done=True, jobs_removed=4, collections_removed=3, tasks_purged=2
        )
        stage = admin_pb.ServiceReset(
            name="downloader", done=not self.stage_error, error=self.stage_error, files_removed=7
        )
        return admin_pb.FactoryResetResponse(services=[own, stage])


class FakeAuth(auth_rpc.AuthServiceServicer):
    """A mesh without a login; lists the tokens it was given."""

    def __init__(self, tokens: Sequence[token_pb.Token] = ()) -> None:
        self.tokens = tokens

    async def ListTokens(
        self, request: auth_pb.ListTokensRequest, context: Any
    ) -> auth_pb.ListTokensResponse:
        tokens, following = _page(self.tokens, request)
        return auth_pb.ListTokensResponse(tokens=tokens, next_page_token=following)

    async def GetCaller(
        self, request: auth_pb.GetCallerRequest, context: Any
    ) -> auth_pb.GetCallerResponse:
        return auth_pb.GetCallerResponse(role=token_pb.ROLE_ADMIN)

    async def CreateLink(
        self, request: auth_pb.CreateLinkRequest, context: Any
    ) -> auth_pb.CreateLinkResponse:
        return auth_pb.CreateLinkResponse(code="once")


class FakeQuotas(quota_rpc.QuotaServiceServicer):
    """Two limits of the owner asked for; remembers what was set."""

    def __init__(self) -> None:
        self.asked: list[quota_api.GetQuotaRequest] = []
        self.set: list[quota_api.SetQuotaRequest] = []
        self.quotas = [
            quota_pb2.Quota(limit=quota_pb2.QUOTA_LIMIT_QUEUED_JOBS, used=2),
            quota_pb2.Quota(
                limit=quota_pb2.QUOTA_LIMIT_STORED_BYTES, maximum=2e10, used=1.5e9, overridden=True
            ),
        ]

    async def GetQuota(
        self, request: quota_api.GetQuotaRequest, context: Any
    ) -> quota_api.GetQuotaResponse:
        self.asked.append(request)
        return quota_api.GetQuotaResponse(owner=request.owner or "me", quotas=self.quotas)

    async def SetQuota(
        self, request: quota_api.SetQuotaRequest, context: Any
    ) -> quota_api.SetQuotaResponse:
        self.set.append(request)
        return quota_api.SetQuotaResponse(owner=request.owner, quotas=self.quotas)


class FakeSearch(search_rpc.SearchServiceServicer):
    """Answers with its hits, two a page; remembers what was asked."""

    def __init__(self, hits: Sequence[search_pb.SearchHit] = (), behind: int = 0) -> None:
        self.asked: list[search_pb.SearchRequest] = []
        self.hits = hits
        self.behind = behind

    async def Search(
        self, request: search_pb.SearchRequest, context: Any
    ) -> search_pb.SearchResponse:
        self.asked.append(request)
        begin = int(request.page_token or 0)
        end = begin + min(2, request.page_size or 2)
        return search_pb.SearchResponse(
            hits=self.hits[begin:end],
            next_page_token=str(end) if end < len(self.hits) else "",
            indexed=7,
            behind=self.behind,
        )


def services(  # noqa: PLR0913 # one fake of each kind
    pipeline: FakePipeline | None = None,
    admin: FakeAdmin | None = None,
    collections: FakeCollections | None = None,
    tokens: Sequence[token_pb.Token] = (),
    quotas: FakeQuotas | None = None,
    search: FakeSearch | None = None,
) -> list[Service]:
    return [
        Service.of(
            pb.DESCRIPTOR.services_by_name["PipelineService"],
            rpc.add_PipelineServiceServicer_to_server,
            pipeline or FakePipeline(),
        ),
        Service.of(
            admin_pb.DESCRIPTOR.services_by_name["AdminService"],
            admin_rpc.add_AdminServiceServicer_to_server,
            admin or FakeAdmin(),
        ),
        Service.of(
            collection_pb.DESCRIPTOR.services_by_name["CollectionService"],
            collection_rpc.add_CollectionServiceServicer_to_server,
            collections or FakeCollections(),
        ),
        Service.of(
            auth_pb.DESCRIPTOR.services_by_name["AuthService"],
            auth_rpc.add_AuthServiceServicer_to_server,
            FakeAuth(tokens),  # type: ignore[abstract] # the rest is not implemented
        ),
        Service.of(
            quota_api.DESCRIPTOR.services_by_name["QuotaService"],
            quota_rpc.add_QuotaServiceServicer_to_server,
            quotas or FakeQuotas(),
        ),
        Service.of(
            search_pb.DESCRIPTOR.services_by_name["SearchService"],
            search_rpc.add_SearchServiceServicer_to_server,
            search or FakeSearch(),
        ),
    ]


@asynccontextmanager
async def serving(  # noqa: PLR0913 # one fake of each kind
    pipeline: FakePipeline | None = None,
    admin: FakeAdmin | None = None,
    listen: str = "127.0.0.1:0",
    collections: FakeCollections | None = None,
    tokens: Sequence[token_pb.Token] = (),
    quotas: FakeQuotas | None = None,
    search: FakeSearch | None = None,
) -> AsyncIterator[str]:
    """Serves the fakes; yields their address."""
    parts = services(pipeline, admin, collections, tokens, quotas, search)
    async with running_server(parts, listen, grace_seconds=0) as server:
        yield f"127.0.0.1:{server.port}"
