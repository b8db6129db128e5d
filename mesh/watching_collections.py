"""Follows a collection until it is settled, through every cut of the connection."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import grpc

from mesh.correlation import call_metadata
from mesh.watching import CUT_OFF, PATIENCE_SECONDS, Place
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1.collection_service_pb2_grpc import CollectionServiceStub


async def follow_collection(
    collections: CollectionServiceStub,
    collection_id: str,
    after_sequence: int = 0,
    *,
    on_cut: Callable[[], None] = lambda: None,
    patience_seconds: float = PATIENCE_SECONDS,
) -> AsyncGenerator[pb.WatchCollectionResponse, None]:
    """Every change once, in order, until no member can change any more.

    A server that never answered at all is not waited for, unless the caller was told of earlier
    changes: then there is one.
    """
    place = Place(after_sequence)
    while True:
        try:
            async with aclosing(_watch(collections, collection_id, place)) as updates:
                async for update in updates:
                    yield update
        except grpc.aio.AioRpcError as error:
            if error.code() not in CUT_OFF or not place.heard_within(patience_seconds):
                raise
            place.at_end = False  # there may have been more to tell
        if place.at_end:
            return
        on_cut()
        await place.pause()


async def _watch(
    collections: CollectionServiceStub, collection_id: str, place: Place
) -> AsyncGenerator[pb.WatchCollectionResponse, None]:
    request = pb.WatchCollectionRequest(
        collection_id=collection_id, after_sequence=place.after_sequence
    )
    call = collections.WatchCollection(request, metadata=call_metadata())
    first = True
    try:
        async for update in call:
            if first:  # how it stands is no part of the story, whatever place it was told with
                update.sequence, first = 0, False
            if update.WhichOneof("update") == "collection":
                place.at_end = update.collection.settled
            if place.moved_to(update.sequence):
                yield update
    finally:
        # Abandoned calls are never collected.
        call.cancel()
