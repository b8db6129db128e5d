"""A collection in the middle of the chaos: begun, watched through every cut, seen to its end."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc

from benchmarks.chaos_caller import AGAIN_SECONDS, CALL_SECONDS, PASSING, Caller, Seen, stubbornly
from benchmarks.chaos_gathered import COMPLETED, Evidence, SeenCollection
from benchmarks.chaos_report import Outcome, judge
from benchmarks.chaos_sources import make_feed
from ytcaption.v1 import collection_pb2
from ytcaption.v1 import collection_service_pb2 as pb
from ytcaption.v1.collection_service_pb2_grpc import CollectionServiceStub

FEED = "feed.xml"
IN_FLIGHT = 2
"""Few at once, so that it lasts while the others come and go."""

Differs = Callable[[str, dict[str, Any]], bool]
"""Whether the recording at an address was heard otherwise than undisturbed."""


def prepared(
    collections: CollectionServiceStub, jobs: Caller, site: str, files: list[Path]
) -> "Gathering":
    """A collection of these files of the site, and a feed beside them that lists them all."""
    addresses = [f"{site}/{file.name}" for file in files]
    make_feed(addresses, files[0].with_name(FEED))
    request = pb.CreateCollectionRequest(
        addresses=addresses[::2],
        sources=[f"{site}/{FEED}"],
        max_in_flight=IN_FLIGHT,
        force=True,
    )
    return Gathering(collections, jobs, request, addresses)


class Gathering:
    """One collection, and the recordings that are to be its members."""

    def __init__(
        self,
        collections: CollectionServiceStub,
        jobs: Caller,
        request: pb.CreateCollectionRequest,
        addresses: list[str],
    ) -> None:
        self._collections = collections
        self._jobs = jobs
        self._request = request
        self._addresses = addresses
        self.collection_id = ""
        self.seen = SeenCollection()
        self.ended = False
        self.kills = 0
        """That fell until it ended."""

    async def see_through(self, request_id: str) -> None:
        """Returns once the collection is settled."""
        request = self._request
        request.request_id = request_id

        async def ask() -> str:
            made = await self._collections.CreateCollection(request, timeout=CALL_SECONDS)
            return made.collection.collection_id

        self.collection_id = await stubbornly(ask)
        while not self.seen.settled:
            await stubbornly(self._watch_once)
            if not self.seen.settled:
                self.seen.cuts += 1
                await asyncio.sleep(AGAIN_SECONDS)

    async def _watch_once(self) -> None:
        request = pb.WatchCollectionRequest(
            collection_id=self.collection_id, after_sequence=self.seen.last
        )
        call = self._collections.WatchCollection(request)
        try:
            async for update in call:
                self.seen.note(update)
        except grpc.aio.AioRpcError as error:
            if error.code() not in PASSING:
                raise
        finally:
            call.cancel()

    async def evidence(self, differs: Differs) -> Evidence:
        """All there is to know of it, asked anew."""
        record = fold = collection_pb2.Collection()
        members: list[collection_pb2.Member] = []
        if self.collection_id:  # else it was never accepted
            record = (await self._page(0, "")).collection
            fold, members = await self.members()
        outcomes = [await self.judged(member, differs) for member in members if member.job_id]
        return Evidence(
            expected=self._addresses,
            record=record,
            fold=fold,
            members=members,
            newest=await self.newest() if record.settled else [],
            seen=self.seen,
            succeeded=sum(not outcome.lost for outcome in outcomes),
            second_results=sum(outcome.ran_twice for outcome in outcomes),
            differing=sum(outcome.differs for outcome in outcomes),
        )

    async def judged(self, member: collection_pb2.Member, differs: Differs) -> Outcome:
        """What became of the job of one member."""
        job = await self._jobs.job(member.job_id)
        if member.state != COMPLETED:
            return judge(member.job_id, member.source_url, job, [], Seen(), differs=False)
        event_log = await self._jobs.event_log(member.job_id)
        transcript = await self._jobs.transcript(member.job_id)
        different = differs(member.source_url, transcript)
        return judge(member.job_id, member.source_url, job, event_log, Seen(), differs=different)

    async def members(self) -> tuple[collection_pb2.Collection, list[collection_pb2.Member]]:
        """The collection and all its members, as a caller gets them."""
        found: list[collection_pb2.Member] = []
        token = ""
        while True:
            page = await self._page(200, token)
            found += page.members
            token = page.next_page_token
            if not token:
                return page.collection, found

    async def _page(self, size: int, token: str) -> pb.GetCollectionResponse:
        request = pb.GetCollectionRequest(
            collection_id=self.collection_id, page_size=size, page_token=token
        )

        def ask() -> Awaitable[pb.GetCollectionResponse]:
            return self._collections.GetCollection(request, timeout=CALL_SECONDS)

        return await stubbornly(ask)

    async def newest(self) -> list[int]:
        """What a watcher that joins after the end receives."""

        async def ask() -> list[int]:
            request = pb.WatchCollectionRequest(collection_id=self.collection_id)
            call = self._collections.WatchCollection(request, timeout=CALL_SECONDS)
            try:
                return [update.sequence async for update in call if update.sequence]
            finally:
                call.cancel()

        return await stubbornly(ask)
