"""Finding members: addresses as they were named, recordings as sources list them."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass

import grpc
from structlog import get_logger

from mesh.correlation import call_metadata
from mesh.errors import LimitExceededError, MeshError
from mesh.reasons import Reason
from mesh.status import to_error
from orchestrator.collections.ledger import Ledger
from orchestrator.gate import Gate
from orchestrator.settings import Settings
from orchestrator.stages import Stages
from ytcaption.v1 import downloader_service_pb2 as downloader_pb
from ytcaption.v1 import job_pb2, media_pb2

log = get_logger(__name__)

UNREAD = 100
"""So many recordings may wait to be noted; then the listing waits too."""


@dataclass(frozen=True, slots=True)
class Found:
    """One recording."""

    address: str
    media: media_pb2.MediaInfo


@dataclass(frozen=True, slots=True)
class Listed:
    """A source was listed to its end, or for good not."""

    place: int
    found: int
    failure: job_pb2.Failure | None = None


@dataclass(frozen=True, slots=True)
class Exhausted:
    """There is nothing more to find."""


Discovered = Found | Listed | Exhausted


class Lister:
    """Asks the downloader what is behind a source."""

    def __init__(self, stages: Stages, gate: Gate, settings: Settings) -> None:
        self._stages = stages
        self._gate = gate
        self._settings = settings

    async def listed(
        self, request: downloader_pb.ResolveRequest
    ) -> AsyncGenerator[downloader_pb.ResolveResponse, None]:
        """Recordings as they are found; a MeshError if the listing breaks off."""
        circuit = self._stages.circuits[job_pb2.STAGE_DOWNLOAD]
        async with circuit.passage() as passage:
            call = self._stages.downloader.Resolve(
                request, timeout=self._settings.job_seconds, metadata=call_metadata()
            )
            try:
                async for response in call:
                    passage.answered()
                    yield response
                passage.answered()
            except grpc.aio.AioRpcError as error:
                failure = to_error(error)
                passage.failed(failure)
                raise failure from error
            finally:
                call.cancel()

    async def until_possible(self) -> None:
        """Waiting for the downloader costs no attempt."""
        if not await self._gate.can_fetch():
            await self._gate.until_can_fetch()

    @property
    def attempts(self) -> int:
        """How often a listing is tried in all."""
        return self._settings.max_attempts

    def pause_seconds(self, failures: int, error: MeshError) -> float:
        """Before the next try."""
        wait: float = self._settings.retry_seconds * 2 ** (failures - 1)
        wait = min(wait, self._settings.retry_limit_seconds)
        wait = max(wait, error.retry_after_seconds or 0)
        return wait * random.uniform(0.8, 1.2)  # noqa: S311 # others try too


class Discovery:
    """Finds the members of one collection, in a task of its own."""

    def __init__(
        self,
        lister: Lister,
        ledger: Ledger,
        *,
        max_members: int,
        wake: Callable[[], None],
    ) -> None:
        self._lister = lister
        self._asked = ledger.request
        self._known = {member.source_url for member in ledger.members}
        self._max_members = max_members
        listings = enumerate(ledger.collection.listings)
        self._listed = {place for place, listing in listings if listing.complete}
        self._wake = wake
        self.discovered: asyncio.Queue[Discovered] = asyncio.Queue(UNREAD)

    async def run(self) -> None:
        """Everything there is, each source after the other."""
        for address in self._asked.addresses:
            await self._note(address, media_pb2.MediaInfo())
        for place, source in enumerate(self._asked.sources):
            if place not in self._listed:
                await self._tell(await self._list(place, source))
        await self._tell(Exhausted())

    async def _tell(self, discovered: Discovered) -> None:
        await self.discovered.put(discovered)
        self._wake()

    async def _list(self, place: int, source: str) -> Listed:
        """Again and again from the beginning; what is known already is not found twice."""
        failures = 0
        while True:
            await self._lister.until_possible()
            seen: set[str] = set()
            try:
                await self._list_once(source, seen)
            except MeshError as error:
                # A downloader that goes away says nothing about the source.
                failures += error.reason != Reason.STAGE_UNAVAILABLE
                if not error.retryable or failures >= self._lister.attempts:
                    return Listed(place, len(seen), _failure(error, failures))
                log.warning("a listing broke off", source=source, error=str(error))
                await asyncio.sleep(self._lister.pause_seconds(max(1, failures), error))
            else:
                return Listed(place, len(seen))

    async def _list_once(self, source: str, seen: set[str]) -> None:
        async with aclosing(self._lister.listed(self._request(source))) as found:
            async for recording in found:
                seen.add(recording.source_url)
                if not await self._note(recording.source_url, recording.media):
                    return self._stop_at_limit()
        return None

    async def _note(self, address: str, media: media_pb2.MediaInfo) -> bool:
        """False if it would be one too many; one address is one member, whoever has it."""
        if address not in self._known:
            if len(self._known) >= self._max_members:
                return False
            self._known.add(address)
            await self._tell(Found(address, media))
        return True

    def _request(self, source: str) -> downloader_pb.ResolveRequest:
        asked = self._asked
        return downloader_pb.ResolveRequest(
            source_url=source,
            # One more shows that there are more; those that are known count here, too.
            max_videos=self._max_members + 1,
            from_date=asked.from_date,
            to_date=asked.to_date,
            period=asked.period,
            options=asked.options.download,
        )

    def _stop_at_limit(self) -> None:
        if not self._asked.max_members:  # a limit the caller asked for is no failure
            raise LimitExceededError(
                f"there is more than the {self._max_members} recordings allowed",
                reason=Reason.TOO_LARGE,
            )


def _failure(error: MeshError, attempt: int) -> job_pb2.Failure:
    return job_pb2.Failure(
        reason=error.reason,
        message=str(error),
        retryable=error.retryable,
        stage=job_pb2.STAGE_DOWNLOAD,
        attempt=attempt,
    )
