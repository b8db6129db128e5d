"""Every rpc and route, asked about own things and another's: what `docs/access.md` shows.

The page is generated from this table, and `test_access.py` asks a real orchestrator and a real
gateway for every cell.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import grpc
from google.protobuf.message import Message

from gateway.http.access import ROUTES, role_of
from gateway.http.problems import STATUSES
from mesh.identity import METHODS, Role
from mesh.reasons import Reason
from tests.support.client import URL
from ytcaption.v1 import (
    admin_service_pb2,
    auth_service_pb2,
    collection_service_pb2,
    media_pb2,
    pipeline_service_pb2,
    quota_pb2,
    quota_service_pb2,
    search_service_pb2,
    task_pb2,
    token_pb2,
)
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import auth_service_pb2 as auth_pb
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import quota_service_pb2 as quota_pb
from ytcaption.v1 import search_service_pb2 as search_pb

RPCS: dict[str, Any] = {
    f"{service.name}/{method.name}": method
    for contract in (
        pipeline_service_pb2,
        collection_service_pb2,
        admin_service_pb2,
        auth_service_pb2,
        quota_service_pb2,
        search_service_pb2,
    )
    for service in contract.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}


class About(StrEnum):
    """What a call concerns."""

    THING = "one thing"
    LIST = "own things"
    OWNER = "an owner"
    CALLER = "the caller"
    MESH = "the whole mesh"
    OPEN = "nothing of an owner"


@dataclass(frozen=True, slots=True)
class Things:
    """What one owner has."""

    owner: str
    job: str
    dead: str
    """A job with a dead letter, and another one."""
    letter: str
    collection: str
    token: str
    """The id of a token that is not used."""
    link: str = ""
    """The code of a link that was not opened."""
    login: auth_pb.CompleteLoginRequest = field(default_factory=auth_pb.CompleteLoginRequest)
    """What a browser brought back from the provider."""

    @property
    def ids(self) -> list[bytes]:
        """Of what only the owner may see."""
        ids = (self.job, self.dead, self.letter, self.collection)
        return [one.encode() for one in ids]


Request = Callable[[Things], Message | Sequence[Message]]
"""About things; several messages for a stream of requests."""


@dataclass(frozen=True, slots=True)
class Rpc:
    """How an rpc is asked."""

    about: About
    request: Request
    missing: str = ""
    """The reason for a thing that does not exist for the caller."""
    shows: Callable[[Things], str] = lambda _: ""
    """What a list shows its owner."""


NO_JOB, NO_COLLECTION = Reason.JOB_NOT_FOUND, Reason.COLLECTION_NOT_FOUND
NO_LETTER = Reason.DEAD_LETTER_NOT_FOUND
THING, LIST, OWNER, CALLER, MESH, OPEN = About
SRT, JSON = media_pb2.CAPTION_FORMAT_SRT, collection_pb.REPORT_FORMAT_JSON
QUEUED = quota_pb2.QUOTA_LIMIT_QUEUED_JOBS
REPORT, RESULT_FILE = "report", "report.md"
"""The executor of every collection, and the file it makes."""
ASKED_TYPE = "asked"
"""The type that is registered and taken back."""


def _of_collection(kind: Any, **fields: Any) -> Request:
    return lambda own: kind(collection_id=own.collection, **fields)


def _of_job(kind: Any, **fields: Any) -> Request:
    return lambda own: kind(job_id=own.job, **fields)


ASKED: dict[str, Rpc] = {
    "PipelineService/CreateJob": Rpc(
        CALLER, lambda _: pb.CreateJobRequest(source_url=URL, force=True)
    ),
    "PipelineService/CreateJobFromUpload": Rpc(
        CALLER,
        lambda _: [
            pb.CreateJobFromUploadRequest(start=pb.UploadStart(file_name="a.ogg", force=True)),
            pb.CreateJobFromUploadRequest(chunk=b"noise"),
        ],
    ),
    "PipelineService/GetJob": Rpc(THING, _of_job(pb.GetJobRequest), NO_JOB),
    "PipelineService/ListJobs": Rpc(
        LIST, lambda _: pb.ListJobsRequest(), shows=lambda own: own.job
    ),
    "PipelineService/WatchJobs": Rpc(
        LIST, lambda _: pb.WatchJobsRequest(), shows=lambda own: own.job
    ),
    "PipelineService/WatchJob": Rpc(THING, _of_job(pb.WatchJobRequest), NO_JOB),
    "PipelineService/CancelJob": Rpc(THING, _of_job(pb.CancelJobRequest), NO_JOB),
    "PipelineService/RepeatJob": Rpc(THING, _of_job(pb.RepeatJobRequest), NO_JOB),
    "PipelineService/GetCaptions": Rpc(THING, _of_job(pb.GetCaptionsRequest, format=SRT), NO_JOB),
    "PipelineService/DownloadArtifact": Rpc(
        THING, _of_job(pb.DownloadArtifactRequest, name="audio.webm"), NO_JOB
    ),
    "PipelineService/TranscribeStream": Rpc(
        CALLER,
        lambda _: [
            pb.TranscribeStreamRequest(start=pb.TranscribeStreamStart()),
            pb.TranscribeStreamRequest(chunk=b"noise"),
        ],
    ),
    "PipelineService/GetAbilities": Rpc(CALLER, lambda _: pb.GetAbilitiesRequest()),
    "CollectionService/CreateCollection": Rpc(
        CALLER, lambda _: collection_pb.CreateCollectionRequest(addresses=[URL])
    ),
    "CollectionService/GetCollection": Rpc(
        THING, _of_collection(collection_pb.GetCollectionRequest, page_size=9), NO_COLLECTION
    ),
    "CollectionService/ListCollections": Rpc(
        LIST, lambda _: collection_pb.ListCollectionsRequest(), shows=lambda own: own.collection
    ),
    "CollectionService/WatchCollections": Rpc(
        LIST, lambda _: collection_pb.WatchCollectionsRequest(), shows=lambda own: own.collection
    ),
    "CollectionService/WatchCollection": Rpc(
        THING, _of_collection(collection_pb.WatchCollectionRequest), NO_COLLECTION
    ),
    "CollectionService/CancelCollection": Rpc(
        THING, _of_collection(collection_pb.CancelCollectionRequest), NO_COLLECTION
    ),
    "CollectionService/GetReport": Rpc(
        THING, _of_collection(collection_pb.GetReportRequest, format=JSON), NO_COLLECTION
    ),
    "CollectionService/ListSubtasks": Rpc(
        THING, _of_collection(collection_pb.ListSubtasksRequest), NO_COLLECTION
    ),
    "CollectionService/ListDocuments": Rpc(
        THING, _of_collection(collection_pb.ListDocumentsRequest), NO_COLLECTION
    ),
    "CollectionService/GetResultFile": Rpc(
        THING,
        _of_collection(collection_pb.GetResultFileRequest, subtask=1, name=RESULT_FILE),
        NO_COLLECTION,
    ),
    "SearchService/Search": Rpc(
        LIST, lambda _: search_pb.SearchRequest(query="word"), shows=lambda own: own.job
    ),
    "AdminService/GetStats": Rpc(MESH, lambda _: admin_pb.GetStatsRequest()),
    "AdminService/GetHealth": Rpc(OPEN, lambda _: admin_pb.GetHealthRequest()),
    "AdminService/Cleanup": Rpc(MESH, lambda _: admin_pb.CleanupRequest(dry_run=True)),
    "AdminService/FactoryReset": Rpc(
        MESH,
        lambda _: admin_pb.FactoryResetRequest(confirmation="ERASE EVERYTHING", dry_run=True),
    ),
    "AdminService/ListDeadLetters": Rpc(
        LIST, lambda _: admin_pb.ListDeadLettersRequest(), shows=lambda own: own.dead
    ),
    "AdminService/ListWebhookDeliveries": Rpc(
        LIST, lambda _: admin_pb.ListWebhookDeliveriesRequest(), shows=lambda own: own.job
    ),
    "AdminService/ReplayDeadLetter": Rpc(
        THING, lambda own: admin_pb.ReplayDeadLetterRequest(job_id=own.dead), NO_LETTER
    ),
    "AdminService/ListAudit": Rpc(MESH, lambda own: admin_pb.ListAuditRequest(subject=own.owner)),
    "AdminService/ExportOwner": Rpc(
        OWNER, lambda own: admin_pb.ExportOwnerRequest(owner=own.owner)
    ),
    "AdminService/EraseOwner": Rpc(
        MESH,
        lambda own: admin_pb.EraseOwnerRequest(
            owner=own.owner, confirmation=f"ERASE {own.owner}", dry_run=True
        ),
    ),
    "AdminService/SetOwnerRetention": Rpc(
        MESH, lambda own: admin_pb.SetOwnerRetentionRequest(owner=own.owner)
    ),
    "AdminService/ListOwnerRetentions": Rpc(MESH, lambda _: admin_pb.ListOwnerRetentionsRequest()),
    "AdminService/RegisterType": Rpc(
        MESH,
        lambda _: admin_pb.RegisterTypeRequest(
            type=ASKED_TYPE,
            role=task_pb2.TASK_ROLE_COLLECTOR,
            transport=task_pb2.TASK_TRANSPORT_QUEUE,
        ),
    ),
    "AdminService/ListTypes": Rpc(CALLER, lambda _: admin_pb.ListTypesRequest()),
    "AdminService/UnregisterType": Rpc(
        MESH,
        lambda _: admin_pb.UnregisterTypeRequest(
            type=ASKED_TYPE, role=task_pb2.TASK_ROLE_COLLECTOR
        ),
    ),
    "AuthService/CreateToken": Rpc(
        MESH,
        lambda own: auth_pb.CreateTokenRequest(subject=own.owner, role=token_pb2.ROLE_READER),
    ),
    "AuthService/ListTokens": Rpc(MESH, lambda own: auth_pb.ListTokensRequest(subject=own.owner)),
    "AuthService/RevokeToken": Rpc(
        MESH, lambda own: auth_pb.RevokeTokenRequest(token_id=own.token)
    ),
    "AuthService/GetCaller": Rpc(CALLER, lambda _: auth_pb.GetCallerRequest()),
    "AuthService/CreateLink": Rpc(CALLER, lambda _: auth_pb.CreateLinkRequest()),
    "AuthService/OpenLink": Rpc(OPEN, lambda own: auth_pb.OpenLinkRequest(code=own.link)),
    "AuthService/CreateSession": Rpc(CALLER, lambda _: auth_pb.CreateSessionRequest()),
    "AuthService/GetLoginMethods": Rpc(OPEN, lambda _: auth_pb.GetLoginMethodsRequest()),
    "AuthService/BeginLogin": Rpc(OPEN, lambda _: auth_pb.BeginLoginRequest()),
    "AuthService/CompleteLogin": Rpc(OPEN, lambda own: own.login),
    "AuthService/EndSessions": Rpc(
        OWNER, lambda own: auth_pb.EndSessionsRequest(subject=own.owner)
    ),
    "QuotaService/GetQuota": Rpc(OWNER, lambda own: quota_pb.GetQuotaRequest(owner=own.owner)),
    "QuotaService/SetQuota": Rpc(
        MESH, lambda own: quota_pb.SetQuotaRequest(owner=own.owner, defaults=[QUEUED])
    ),
    # These leave nothing to ask about.
    "AdminService/PurgeDeadLetters": Rpc(LIST, lambda _: admin_pb.PurgeDeadLettersRequest()),
    "CollectionService/DeleteCollection": Rpc(
        THING, _of_collection(collection_pb.DeleteCollectionRequest), NO_COLLECTION
    ),
    "PipelineService/DeleteJob": Rpc(THING, _of_job(pb.DeleteJobRequest), NO_JOB),
}
"""In the order in which they are asked."""


@dataclass(frozen=True, slots=True)
class Route:
    """How a route is asked, where that does not follow from its path."""

    query: Callable[[Things], str] = lambda _: ""
    body: dict[str, Any] = field(default_factory=dict)
    """Arguments of the HTTP client."""
    about: About | None = None
    missing: str = ""


REQUESTS: dict[str, Route] = {
    "POST /pipeline": Route(body={"json": {"youtube_url": URL}}),
    "POST /uploads": Route(body={"content": b"noise"}),
    "POST /collections": Route(body={"json": {"addresses": [URL]}}),
    # The route names one letter; the call behind it takes a filter.
    "DELETE /dead-letters/{letter_id}": Route(about=THING, missing=NO_LETTER),
    "POST /admin/cleanup": Route(lambda _: "?dry_run=true"),
    "POST /admin/factory-reset": Route(
        body={"json": {"confirmation": "ERASE EVERYTHING", "dry_run": True}}
    ),
    "POST /admin/types": Route(
        body={"json": {"type": ASKED_TYPE, "role": "collector", "transport": "queue"}}
    ),
    "GET /search": Route(lambda _: "?q=word"),
    "GET /owners/export": Route(lambda own: f"?owner={own.owner}"),
    "DELETE /owners": Route(
        lambda own: f"?owner={own.owner}&confirmation=ERASE+{own.owner}&dry_run=true"
    ),
    "PUT /owners/retention": Route(lambda own: f"?owner={own.owner}"),
    "GET /quota": Route(about=CALLER),
    "GET /static": Route(lambda _: "/theme.js"),
    "GET /docs/assets": Route(lambda _: "/swagger-ui.css"),
    "GET /login": Route(lambda own: f"?code={own.link}"),
    # The token to judge is in the form; a browser is sent back to it in any case.
    "POST /login": Route(body={"data": {"token": ""}}, about=OPEN),
}

ANSWERED, LEFT_OUT, NOTHING = "answered", "left out", "—"


@dataclass(frozen=True, slots=True)
class Cells:
    """The answers of a row."""

    own: str
    other: str
    none: str
    expired: str
    wrong: str
    """For the role below the least one."""


def of_rpc(name: str) -> Cells:
    """The expected answers of an rpc: status and reason."""
    about = ASKED[name].about
    return _cells(METHODS[name], about, ASKED[name].missing, lambda code: code.name)


def of_route(route: str) -> Cells:
    """The expected answers of a route."""
    found = REQUESTS.get(route, Route())
    about, missing = about_route(route), found.missing
    rpc = ASKED.get(ROUTES[route])
    if rpc and not missing:
        missing = rpc.missing
    return _cells(least_role(route), about, missing, lambda code: str(STATUSES[code]))


def least_role(route: str) -> Role:
    """Who may use a route at all."""
    return Role.ANYONE if about_route(route) is OPEN else role_of(route)


def about_route(route: str) -> About:
    """What a route concerns: the same as the call that decides about it, unless it names less."""
    asked = REQUESTS.get(route, Route()).about
    if asked is None:
        asked = ASKED[ROUTES[route]].about if ROUTES[route] else OPEN
    return asked


def _cells(
    role: Role, about: About, missing: str, status: Callable[[grpc.StatusCode], str]
) -> Cells:
    if role is Role.ANYONE:
        return Cells(ANSWERED, NOTHING, ANSWERED, ANSWERED, NOTHING)
    forbidden = f"{status(grpc.StatusCode.PERMISSION_DENIED)} {Reason.ROLE_REQUIRED}"
    return Cells(
        own=ANSWERED,
        other={
            THING: f"{status(grpc.StatusCode.NOT_FOUND)} {missing}",
            LIST: LEFT_OUT,
            OWNER: forbidden,
            CALLER: NOTHING,
            MESH: ANSWERED,
        }[about],
        none=f"{status(grpc.StatusCode.UNAUTHENTICATED)} {Reason.TOKEN_REQUIRED}",
        expired=f"{status(grpc.StatusCode.UNAUTHENTICATED)} {Reason.TOKEN_EXPIRED}",
        wrong=forbidden if role > Role.READER else NOTHING,
    )
