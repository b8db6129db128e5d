"""Capacity: refuses new work while our disk or one of the broker's stores is nearly full."""

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
TIMEOUT_SECONDS = 0.5
CHECK_BYTES = 16 * 1024**2
RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class StoreUsage:
    """How many bytes one store holds."""

    stream: str
    used: int
    limit: int
    """0 if it is unlimited."""

    def over(self, percent: float, more: int = 0) -> bool:
        """Whether it would exceed this percentage of its limit with `more` bytes."""
        return self.limit > 0 and self.used + more > self.limit * percent / 100


class Capacity:
    """Checked before work begins; reads the stores' usage once a second at most."""

    def __init__(self, bus: Bus, settings: Settings) -> None:
        self._bus = bus
        self._settings = settings
        self._lock = asyncio.Lock()
        self._read_at = float("-inf")
        self._usage: list[StoreUsage] = []

    async def check(self, upload_bytes: int = 0) -> None:
        """LimitExceededError if there is no room for a new job with a file of that size."""
        if upload_bytes > self._settings.max_upload_bytes:
            return  # too large in any case: the receiver of the upload refuses it
        self._check_disk(upload_bytes)
        artifacts = f"OBJ_{self._bus.names.artifacts_bucket}"
        for store in await self._recent_usage():
            more = upload_bytes if store.stream == artifacts else 0
            if store.over(self._settings.full_percent, more):
                raise LimitExceededError(
                    f"the store {store.stream} is nearly full", reason=Reason.STORAGE_FULL
                )

    async def guarded(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same chunks while the disk has room; for uploads of unknown size."""
        unseen = 0
        async for chunk in chunks:
            unseen += len(chunk)
            if unseen > CHECK_BYTES:
                self._check_disk(0)
                unseen = 0
            yield chunk

    def _check_disk(self, more: int) -> None:
        if self.free_bytes() - more < self._settings.min_free_bytes:
            raise LimitExceededError(
                "the orchestrator's disk is nearly full", reason=Reason.STORAGE_FULL
            )

    async def until_free(self) -> None:
        """Returns once the disk has room for an attempt; logs once if it has to wait."""
        logged = False
        while self.free_bytes() < self._settings.min_free_bytes:
            if not logged:
                folder = str(self._settings.work_dir)
                log.warning("no work is taken until the disk has room", folder=folder)
                logged = True
            await asyncio.sleep(RETRY_SECONDS)

    def free_bytes(self) -> int:
        """Free space on the disk of the working folder."""
        folder = self._settings.work_dir
        try:
            return shutil.disk_usage(folder).free
        except FileNotFoundError:  # a cleaner of temporary files removed it
            folder.mkdir(parents=True, exist_ok=True)
            return shutil.disk_usage(folder).free

    async def _recent_usage(self) -> list[StoreUsage]:
        async with self._lock:
            if monotonic() - self._read_at > FRESH_SECONDS:
                # A broker that does not answer fails the next write, not this check.
                with suppress(UnavailableError, TimeoutError):
                    async with asyncio.timeout(TIMEOUT_SECONDS):
                        self._usage = await self.usage()
                self._read_at = monotonic()
            return self._usage

    async def usage(self) -> list[StoreUsage]:
        """The usage of every store now."""
        found = []
        async with storing():
            for stream in self._bus.names.streams():
                info = await self._bus.jetstream.stream_info(stream)
                limit = max(0, info.config.max_bytes or 0)
                found.append(StoreUsage(stream, info.state.bytes, limit))
        return found
