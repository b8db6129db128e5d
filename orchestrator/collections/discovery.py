"""Discovery: the addresses of a request, then the recordings that its sources list."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from structlog import get_logger

from mesh.errors import LimitExceededError, MeshError
from mesh.messages import copy_shared
from mesh.reasons import Reason
from orchestrator.collections.members import PENDING
from orchestrator.collections.projection import Projection
from orchestrator.metrics import RETRIES
from orchestrator.pipeline.stages import failure_of
from orchestrator.tasks.listing import Lister
from ytcaption.v1 import collection_pb2, job_pb2, media_pb2
from ytcaption.v1 import downloader_service_pb2 as downloader_pb

log = get_logger(__name__)

UNREAD = 100
"""Recordings that may wait for the controller; then the listing waits too."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The listing of a source finished, or failed permanently."""

    place: int
    found: int
    failure: job_pb2.Failure | None = None


Discovered = collection_pb2.Member | Listed | None
"""A new member without its number, the end of a listing, or None: every source was listed."""


class Discovery:
    """Finds the members of one collection in a background task."""

    def __init__(
        self,
        lister: Lister,
        projection: Projection,
        *,
        max_members: int,
        wake: Callable[[], None],
    ) -> None:
        self._lister = lister
        self._request = projection.request
        self._known = {member.source_url for member in projection.members}
        self._max_members = max_members
        listings = enumerate(projection.collection.listings)
        self._listed = {place for place, listing in listings if listing.complete}
        self._wake = wake
        self.discovered: asyncio.Queue[Discovered] = asyncio.Queue(UNREAD)

    def claim(self, address: str) -> bool:
        """Whether an address that a collector found is to become a member: new, and not too many.

        It counts as found from here on.
        """
        if address in self._known or len(self._known) >= self._max_members:
            return False
        self._known.add(address)
        return True

    async def run(self) -> None:
        """Finds everything, one source after the other."""
        for address in self._request.addresses:
            await self._add(address, media_pb2.MediaInfo())
        for place, source in enumerate(self._request.sources):
            if place not in self._listed:
                await self._put(await self._list(place, source))
        await self._put(None)

    async def _put(self, discovered: Discovered) -> None:
        await self.discovered.put(discovered)
        self._wake()

    async def _list(self, place: int, source: str) -> Listed:
        """Lists from the beginning in each attempt; known recordings are not found twice."""
        failures = 0
        while True:
            await self._lister.until_possible()
            seen: set[str] = set()
            try:
                await self._list_once(source, seen)
            except MeshError as error:
                # A downloader that goes away is not the source's failure.
                failures += error.reason != Reason.STAGE_UNAVAILABLE
                if not error.retryable or failures >= self._lister.max_attempts:
                    failure = failure_of(error, job_pb2.STAGE_DOWNLOAD, failures)
                    return Listed(place, len(seen), failure)
                RETRIES.labels("listing", error.reason).inc()
                log.warning("a listing broke off", source=source, error=str(error))
                await asyncio.sleep(self._lister.backoff.delay(failures, error))
            else:
                return Listed(place, len(seen))

    async def _list_once(self, source: str, seen: set[str]) -> None:
        async with aclosing(self._lister.listed(self._resolve_request(source))) as found:
            async for recording in found:
                seen.add(recording.source_url)
                if await self._add(recording.source_url, recording.media):
                    continue
                if self._request.max_members:  # a limit the caller asked for is no failure
                    return
                raise LimitExceededError(
                    f"there is more than the {self._max_members} recordings allowed",
                    reason=Reason.TOO_LARGE,
                )

    async def _add(self, address: str, media: media_pb2.MediaInfo) -> bool:
        """Adds an address once, whichever source has it; False at the limit of members."""
        if address not in self._known:
            if not self.claim(address):
                return False
            member = collection_pb2.Member(source_url=address, state=PENDING)
            copy_shared(media, member)
            await self._put(member)
        return True

    def _resolve_request(self, source: str) -> downloader_pb.ResolveRequest:
        request = self._request
        return downloader_pb.ResolveRequest(
            source_url=source,
            # One more shows that there are more; known recordings count here, too.
            max_videos=self._max_members + 1,
            from_date=request.from_date,
            to_date=request.to_date,
            period=request.period,
            options=request.options.download,
        )
