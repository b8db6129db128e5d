"""Readiness: when work may begin. A job taken while a stage is away would waste an attempt."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import grpc
from structlog import get_logger

from orchestrator.pipeline.stages import DOWNLOADER, STAGES, Stage, Stages

log = get_logger(__name__)

LOOK_SECONDS = 0.1
CONNECTING = (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING)
CONNECT_SECONDS = 2.0
"""A channel that was just opened does not know its state yet."""


class Readiness:
    """Tells stages that every job needs from the downloader, which only some need."""

    def __init__(self, stages: Stages, capacity: Callable[[], Awaitable[None]]) -> None:
        self._stages = stages
        self._capacity = capacity

    async def until_ready(self) -> None:
        """Waits until the stages every job needs serve and the disk has space."""
        await self._until_serving(*(stage for stage in STAGES if stage.every_job))
        await self._capacity()

    async def can_fetch(self) -> bool:
        """Whether a job that has yet to download its recording may begin."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS):
                while self._state(DOWNLOADER) in CONNECTING:  # noqa: ASYNC110 # nothing signals it
                    await asyncio.sleep(LOOK_SECONDS / 10)
        return self._serves(DOWNLOADER)

    async def until_can_fetch(self) -> None:
        """Waits until such a job may begin."""
        await self._until_serving(DOWNLOADER)

    async def _until_serving(self, *stages: Stage) -> None:
        logged = ""
        while missing := ", ".join(stage.name for stage in stages if not self._serves(stage)):
            if missing != logged:
                log.warning("work waits for a stage", missing=missing)
                logged = missing
            await asyncio.sleep(LOOK_SECONDS)

    def _serves(self, stage: Stage) -> bool:
        return self._state(stage) is grpc.ChannelConnectivity.READY

    def _state(self, stage: Stage) -> grpc.ChannelConnectivity:
        # The channel watches the health of every replica. A call to ask would take a replica's
        # turn, and with two of them all jobs would go to the other.
        return self._stages.channels[stage.id].get_state(try_to_connect=True)
