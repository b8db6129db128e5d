"""When work may begin: a job taken while a stage is away would only waste an attempt."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import grpc
from structlog import get_logger

from orchestrator.stages import Stages

log = get_logger(__name__)

LOOK_SECONDS = 0.1
DOWNLOADER = "downloader"
CONNECTING = (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING)
CONNECT_SECONDS = 2.0
"""Who has only just started does not know yet."""


class Gate:
    """Knows what every job needs, and what only some do."""

    def __init__(self, stages: Stages, room: Callable[[], Awaitable[None]]) -> None:
        self._stages = stages
        self._room = room

    async def until_open(self) -> None:
        """Until there is room on the disk and the stages every job needs serve."""
        await self._until_serving(*(name for name in self._stages.channels if name != DOWNLOADER))
        await self._room()

    async def can_fetch(self) -> bool:
        """Whether a job that has its recording still to come may begin."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS):
                while self._state(DOWNLOADER) in CONNECTING:  # noqa: ASYNC110 # it tells nobody
                    await asyncio.sleep(LOOK_SECONDS / 10)
        return self._serves(DOWNLOADER)

    async def until_can_fetch(self) -> None:
        """Until such a job may begin."""
        await self._until_serving(DOWNLOADER)

    async def _until_serving(self, *names: str) -> None:
        told = ""
        while missing := ", ".join(name for name in names if not self._serves(name)):
            if missing != told:
                log.warning("work waits for a stage", missing=missing)
                told = missing
            await asyncio.sleep(LOOK_SECONDS)

    def _serves(self, name: str) -> bool:
        return self._state(name) is grpc.ChannelConnectivity.READY

    def _state(self, name: str) -> grpc.ChannelConnectivity:
        # The channel watches the health of every replica. A call to ask would take a replica's
        # turn, and with two of them all jobs would go to the other.
        _, channel = self._stages.channels[name]
        return channel.get_state(try_to_connect=True)
