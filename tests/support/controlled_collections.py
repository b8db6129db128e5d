"""A fake orchestrator whose one collection changes when a test says so."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from mesh.errors import NotFoundError
from mesh.reasons import Reason
from mesh.server import Service
from tests.support.busy_orchestrator import RunningAddress, serving_all
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import admin_service_pb2_grpc as admin_rpc
from ytcaption.v1 import collection_pb2, job_pb2, task_pb2
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1 import collection_service_pb2_grpc as rpc

if TYPE_CHECKING:  # to mypy a servicer without all its rpcs is abstract; at run time it is not
    Servicer = object
    AdminServicer = object
else:
    Servicer = rpc.CollectionServiceServicer
    AdminServicer = admin_rpc.AdminServiceServicer

ID = "01997b3e-6e0a-7c44-9d5f-0d3a5a3f2c11"
NEXT_PAGE = "older"
Update = pb.WatchCollectionResponse


class ControlledCollection(Servicer):
    """One collection; `publish` sends updates to all watches, present and future."""

    def __init__(self) -> None:
        self.collection = collection_pb2.Collection(
            collection_id=ID, state=collection_pb2.COLLECTION_STATE_RUNNING
        )
        self.requests: list[Any] = []
        self.report: list[pb.GetReportResponse] = []
        self.subtasks: list[task_pb2.Subtask] = []
        self.documents: list[task_pb2.Document] = []
        self.file = b""
        self.sent = 0
        self._updates: list[Update] = []
        self._changed = asyncio.Condition()

    async def publish(self, *updates: Update) -> None:
        async with self._changed:
            for update in updates:
                if update.WhichOneof("update") == "collection":
                    self.collection = update.collection
                self._updates.append(update)
            self._changed.notify_all()

    async def CreateCollection(  # noqa: N802
        self, request: pb.CreateCollectionRequest, context: Any
    ) -> pb.CreateCollectionResponse:
        self.requests.append(request)
        return pb.CreateCollectionResponse(collection=self.collection)

    async def GetCollection(  # noqa: N802
        self, request: pb.GetCollectionRequest, context: Any
    ) -> pb.GetCollectionResponse:
        self._check(request.collection_id)
        newest = {
            one.member.number: one.member
            for one in self._updates
            if one.WhichOneof("update") == "member"
        }
        begin = int(request.page_token or 0)
        members = [newest[number] for number in sorted(newest)]
        end = begin + request.page_size
        return pb.GetCollectionResponse(
            collection=self.collection,
            members=members[begin:end],
            next_page_token=str(end) if request.page_size and end < len(members) else "",
        )

    async def ListSubtasks(  # noqa: N802
        self, request: pb.ListSubtasksRequest, context: Any
    ) -> pb.ListSubtasksResponse:
        self._check(request.collection_id)
        self.requests.append(request)
        return pb.ListSubtasksResponse(subtasks=self.subtasks, next_page_token=NEXT_PAGE)

    async def ListDocuments(  # noqa: N802
        self, request: pb.ListDocumentsRequest, context: Any
    ) -> pb.ListDocumentsResponse:
        self._check(request.collection_id)
        self.requests.append(request)
        return pb.ListDocumentsResponse(documents=self.documents)

    async def GetResultFile(  # noqa: N802
        self, request: pb.GetResultFileRequest, context: Any
    ) -> AsyncIterator[pb.GetResultFileResponse]:
        self._check(request.collection_id)
        self.requests.append(request)
        found = list(self.subtasks[request.subtask - 1].files)
        yield pb.GetResultFileResponse(file=found[0])
        yield pb.GetResultFileResponse(chunk=self.file)

    async def ListCollections(  # noqa: N802
        self, request: pb.ListCollectionsRequest, context: Any
    ) -> pb.ListCollectionsResponse:
        self.requests.append(request)
        return pb.ListCollectionsResponse(collections=[self.collection], next_page_token=NEXT_PAGE)

    async def WatchCollections(  # noqa: N802
        self, request: pb.WatchCollectionsRequest, context: Any
    ) -> AsyncIterator[pb.WatchCollectionsResponse]:
        self.requests.append(request)
        yield pb.WatchCollectionsResponse(collections=[self.collection], next_page_token=NEXT_PAGE)
        await asyncio.Event().wait()

    async def WatchCollection(  # noqa: N802
        self, request: pb.WatchCollectionRequest, context: Any
    ) -> AsyncIterator[Update]:
        self._check(request.collection_id)
        yield Update(collection=self.collection)
        sent = 0
        while True:
            async with self._changed:
                while sent == len(self._updates) and not self.collection.settled:
                    await self._changed.wait()
                pending, sent = self._updates[sent:], len(self._updates)
            for update in pending:
                if not update.sequence or update.sequence > request.after_sequence:
                    yield update
                    self.sent += 1
            if self.collection.settled and sent == len(self._updates):
                return

    async def CancelCollection(  # noqa: N802
        self, request: pb.CancelCollectionRequest, context: Any
    ) -> pb.CancelCollectionResponse:
        self._check(request.collection_id)
        self.collection.state = collection_pb2.COLLECTION_STATE_CANCELLED
        self.collection.cancel_note = request.note
        return pb.CancelCollectionResponse(collection=self.collection)

    async def DeleteCollection(  # noqa: N802
        self, request: pb.DeleteCollectionRequest, context: Any
    ) -> pb.DeleteCollectionResponse:
        self._check(request.collection_id)
        return pb.DeleteCollectionResponse(jobs_removed=3)

    async def GetReport(  # noqa: N802
        self, request: pb.GetReportRequest, context: Any
    ) -> AsyncIterator[pb.GetReportResponse]:
        self._check(request.collection_id)
        self.requests.append(request)
        for frame in self.report:
            yield frame

    def _check(self, collection_id: str) -> None:
        if collection_id != ID:
            raise NotFoundError("no such collection", reason=Reason.COLLECTION_NOT_FOUND)


class WebhookDeliveries(AdminServicer):
    """A fixed list of webhook deliveries."""

    def __init__(self, *deliveries: admin_pb.WebhookDelivery) -> None:
        self._deliveries = deliveries
        self.requests: list[admin_pb.ListWebhookDeliveriesRequest] = []

    async def ListWebhookDeliveries(  # noqa: N802
        self, request: admin_pb.ListWebhookDeliveriesRequest, context: Any
    ) -> admin_pb.ListWebhookDeliveriesResponse:
        self.requests.append(request)
        return admin_pb.ListWebhookDeliveriesResponse(
            deliveries=self._deliveries, next_page_token=NEXT_PAGE
        )


def member(number: int, state: str, sequence: int = 0, **more: Any) -> Update:
    """A change of a member, stored under that sequence."""
    found = collection_pb2.Member(
        number=number,
        job_id=f"job-{number}",
        source_url=f"https://example.test/{number}",
        state=collection_pb2.MemberState.Value(f"MEMBER_STATE_{state.upper()}"),
        **more,
    )
    return Update(sequence=sequence, member=found)


def progress(number: int, share: float) -> Update:
    """Live progress of a member."""
    return Update(progress=collection_pb2.MemberProgress(number=number, progress=share))


def changed(sequence: int, state: str, *, settled: bool = False, **more: Any) -> Update:
    """A change of the collection itself."""
    found = collection_pb2.Collection(
        collection_id=ID,
        state=collection_pb2.CollectionState.Value(f"COLLECTION_STATE_{state.upper()}"),
        settled=settled,
        **more,
    )
    return Update(sequence=sequence, collection=found)


def failure(reason: str) -> job_pb2.Failure:
    return job_pb2.Failure(reason=reason, message="in words", attempt=1)


def serving_collections(
    servicer: ControlledCollection, listen: str = "127.0.0.1:0"
) -> RunningAddress:
    """Serves on loopback; yields the address."""
    service = Service.of(
        pb.DESCRIPTOR.services_by_name["CollectionService"],
        rpc.add_CollectionServiceServicer_to_server,
        servicer,
    )
    return serving_all(service, listen=listen)


def serving_deliveries(servicer: WebhookDeliveries) -> RunningAddress:
    """Serves on loopback; yields the address."""
    service = Service.of(
        admin_pb.DESCRIPTOR.services_by_name["AdminService"],
        admin_rpc.add_AdminServiceServicer_to_server,
        servicer,
    )
    return serving_all(service)
