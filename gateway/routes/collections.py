"""Many recordings under one request."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Query
from google.protobuf.duration import from_timedelta
from starlette.responses import Response

from gateway import collection_telling as telling
from gateway.backend import REMOVING_SECONDS
from gateway.choices import options_for, priority_of
from gateway.collection_shapes import (
    Collection,
    CollectionDeleted,
    CollectionDetail,
    CollectionRequest,
)
from gateway.collection_stories import CollectionStory
from gateway.face import Face, FaceOf
from gateway.paging import PageToken
from gateway.problems import described
from gateway.streams import (
    NOTHING_MORE,
    After,
    LastEventId,
    check_room,
    described_stream,
    place_of,
    streamed,
)
from mesh.correlation import adopt, current, new_id
from mesh.errors import UnavailableError
from ytcaption.v1 import collection_pb2
from ytcaption.v1 import collection_service_pb2 as pb

router = APIRouter(prefix="/collections", tags=["collections"])

CollectionId = Annotated[
    str, Path(max_length=64, examples=["01997b3e-6e0a-7c44-9d5f-0d3a5a3f2c11"])
]
STOPPING_SECONDS = 180.0
"""Every member is stopped, and there may be many."""


@router.post("", status_code=202, responses=described(409, 507))
async def collect(order: CollectionRequest, face: FaceOf, response: Response) -> Collection:
    """Accepts many recordings; the collection is durable when this answers."""
    if order.correlation_id:
        adopt(order.correlation_id)
    request = pb.CreateCollectionRequest(
        sources=order.sources,
        addresses=order.addresses,
        options=options_for(order, face.settings),
        max_in_flight=order.max_in_flight,
        max_members=order.max_members,
        period=order.period,
        from_date=order.from_date,
        to_date=order.to_date,
        title=order.title,
        webhook_url=order.webhook_url,
        # Ours, if the caller has none: a call retried on its way must not make two collections.
        request_id=order.request_id or new_id(),
        correlation_id=order.correlation_id or current(),
        force=order.force,
        caller=order.caller,
        priority=priority_of(order),
    )
    if order.timeout is not None:
        request.timeout.CopyFrom(from_timedelta(timedelta(seconds=order.timeout)))
    orchestrator = face.orchestrator
    created = await orchestrator.ask(orchestrator.collections.CreateCollection, request)
    response.headers["Location"] = f"/collections/{created.collection.collection_id}"
    return telling.collection(created.collection)


@router.get("/{collection_id}", responses=described(404))
async def get_collection(
    collection_id: CollectionId,
    face: FaceOf,
    limit: Annotated[int, Query(ge=0, le=200, description="Members; 0: none.")] = 50,
    page_token: PageToken = "",
) -> CollectionDetail:
    """A collection as it stands, and one page of its members in the order they were found."""
    orchestrator = face.orchestrator
    request = pb.GetCollectionRequest(
        collection_id=collection_id, page_size=limit, page_token=page_token
    )
    found = await orchestrator.ask(orchestrator.collections.GetCollection, request)
    members = [telling.member(one) for one in found.members]
    return telling.detail(found.collection, members, found.next_page_token)


@router.get(
    "/{collection_id}/events",
    responses=described_stream("no member can change any more") | NOTHING_MORE | described(404),
    response_class=Response,
)
async def follow_collection(
    collection_id: CollectionId,
    face: FaceOf,
    last_event_id: LastEventId = None,
    after: After = None,
) -> Response:
    """The collection, each member that changed since the client was here, then live.

    Events: `collection`, `member`, `progress`, and at the end `finished`.
    """
    place = place_of(last_event_id, after)
    found = await _collection(face, collection_id, resuming=bool(place))
    check_room(face.stories, face.settings.max_streams)
    story = CollectionStory(face.orchestrator, collection_id, place)
    if place and found is not None and found.settled and not await story.has_more():
        return Response(status_code=204)
    return streamed(face.stories, story)


async def _collection(
    face: Face, collection_id: str, *, resuming: bool
) -> collection_pb2.Collection | None:
    """None if that cannot be known now; see the events of a job."""
    try:
        return await face.orchestrator.collection(collection_id)
    except UnavailableError:
        if resuming:
            return None
        raise


@router.post("/{collection_id}/cancel", responses=described(404))
async def cancel_collection(
    collection_id: CollectionId, face: FaceOf, note: Annotated[str, Query(max_length=1000)] = ""
) -> Collection:
    """Stops every member that has not ended, and finds no more; what was heard stays."""
    orchestrator = face.orchestrator
    request = pb.CancelCollectionRequest(collection_id=collection_id, note=note)
    done = await orchestrator.ask(
        orchestrator.collections.CancelCollection, request, STOPPING_SECONDS
    )
    return telling.collection(done.collection)


@router.delete("/{collection_id}", responses=described(404))
async def delete_collection(collection_id: CollectionId, face: FaceOf) -> CollectionDeleted:
    """Removes every trace of a collection and its members; one that runs is stopped first."""
    orchestrator = face.orchestrator
    request = pb.DeleteCollectionRequest(collection_id=collection_id)
    done = await orchestrator.ask(
        orchestrator.collections.DeleteCollection, request, REMOVING_SECONDS
    )
    return CollectionDeleted(collection_id=collection_id, jobs_removed=done.jobs_removed)
