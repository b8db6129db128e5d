"""Whether there is room for more work: on our own disk, and in the broker's stores."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic

from structlog import get_logger

from mesh.bus import Bus, storing
from mesh.errors import LimitExceededError, UnavailableError
from mesh.reasons import Reason
from orchestrator.settings import Settings

log = get_logger(__name__)

FRESH_SECONDS = 1.0
LOOK_SECONDS = 1.0
GLANCE_BYTES = 16 * 1024**2
RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Fill:
    """How full one store is."""

    stream: str
    used: int
    limit: int
    """0 if it has none."""

    def over(self, percent: float, more: int = 0) -> bool:
        """Whether it holds, with `more` bytes, more than so many per cent of what it may."""
        return self.limit > 0 and self.used + more > self.limit * percent / 100


class Room:
    """Asked before work begins; looks at the stores once a second at most."""

    def __init__(self, bus: Bus, settings: Settings) -> None:
        self._bus = bus
        self._settings = settings
        self._looking = asyncio.Lock()
        self._looked = float("-inf")
        self._fills: list[Fill] = []

    async def check(self) -> None:
        """LimitExceededError if a new job would find no room."""
        await self._check(0)

    async def check_upload(self, announced: int | None) -> None:
        """The same for a job that comes with a file of that size."""
        if announced is not None and announced > self._settings.max_upload_bytes:
            return  # never welcome, however much room there is: who receives it says so
        await self._check(announced or 0)

    async def guarded(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same chunks, for as long as the disk has room: not everybody announces a size."""
        unseen = 0
        async for chunk in chunks:
            unseen += len(chunk)
            if unseen > GLANCE_BYTES:
                self._check_disk(0)
                unseen = 0
            yield chunk

    async def _check(self, upload_bytes: int) -> None:
        self._check_disk(upload_bytes)
        artifacts = f"OBJ_{self._bus.names.artifacts_bucket}"
        for fill in await self._recent_fills():
            more = upload_bytes if fill.stream == artifacts else 0
            if fill.over(self._settings.full_percent, more):
                raise LimitExceededError(
                    f"the store {fill.stream} is nearly full", reason=Reason.STORAGE_FULL
                )

    def _check_disk(self, more: int) -> None:
        if self.free_bytes() - more < self._settings.min_free_bytes:
            raise LimitExceededError(
                "the orchestrator's disk is nearly full", reason=Reason.STORAGE_FULL
            )

    async def until_free(self) -> None:
        """Returns once the disk has room for an attempt; says so in the log if it has to wait."""
        told = False
        while self.free_bytes() < self._settings.min_free_bytes:
            if not told:
                folder = str(self._settings.work_dir)
                log.warning("no work is taken until the disk has room", folder=folder)
                told = True
            await asyncio.sleep(RETRY_SECONDS)

    def free_bytes(self) -> int:
        """What is left on the disk of our working folder."""
        folder = self._settings.work_dir
        try:
            return shutil.disk_usage(folder).free
        except FileNotFoundError:  # somebody tidied the temporary folder
            folder.mkdir(parents=True, exist_ok=True)
            return shutil.disk_usage(folder).free

    async def _recent_fills(self) -> list[Fill]:
        async with self._looking:
            if monotonic() - self._looked > FRESH_SECONDS:
                # A broker that does not answer is the affair of whoever stores something next.
                with suppress(UnavailableError, TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        self._fills = await self.fills()
                self._looked = monotonic()
            return self._fills

    async def fills(self) -> list[Fill]:
        """How full every store of ours is at this moment."""
        found = []
        async with storing():
            for stream in self._bus.names.streams():
                info = await self._bus.jetstream.stream_info(stream)
                limit = max(0, info.config.max_bytes or 0)
                found.append(Fill(stream, info.state.bytes, limit))
        return found
