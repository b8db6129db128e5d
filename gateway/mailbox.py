"""What a job's watch says, between the task that listens and the client that reads."""

import asyncio
from contextlib import aclosing, suppress
from math import inf

import grpc

from gateway.backend import Orchestrator, understood
from mesh.errors import MeshError
from mesh.watching import follow
from ytcaption.v1 import pipeline_service_pb2 as pb

ROOM = 16
"""Updates that may wait; then we stop listening, and the orchestrator stops sending."""


class Mailbox:
    """Keeps every event in order, but of live figures only the newest."""

    def __init__(self, orchestrator: Orchestrator, job_id: str, after: int) -> None:
        self._orchestrator = orchestrator
        self._job_id = job_id
        self._after = after
        self._events: list[pb.WatchJobResponse] = []
        self._progress: pb.WatchJobResponse | None = None
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._closed = False
        self._failure: MeshError | None = None
        self._listening: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begins to listen, in a task of its own: whoever reads may be cancelled at any moment."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())

    def close(self) -> None:
        """Stops listening; who waits for news hears that there are none."""
        self._closed = True
        self._news.set()
        if self._listening is not None:
            self._listening.cancel()

    async def _listen(self) -> None:
        # Where the orchestrator goes away, the client only sees that nothing happens.
        updates = follow(
            self._orchestrator.pipeline, self._job_id, self._after, patience_seconds=inf
        )
        try:
            async with aclosing(updates):
                async for update in updates:
                    await self._take(update)
        except grpc.aio.AioRpcError as error:
            self._failure = understood(error)
        finally:
            self._closed = True
            self._news.set()

    async def _take(self, update: pb.WatchJobResponse) -> None:
        if update.WhichOneof("update") == "progress":
            self._progress = update
        else:
            self._events.append(update)
        self._news.set()
        if len(self._events) >= ROOM:
            self._room.clear()
            await self._room.wait()

    async def next(self, seconds: float) -> list[pb.WatchJobResponse]:
        """All that waits; nothing if nothing came for so long. Raises ClosedError at the end."""
        if not self._has_news():
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()
        waiting, self._events = self._events, []
        self._room.set()
        if self._progress is not None:
            waiting.append(self._progress)
            self._progress = None
        if waiting or not self._closed:
            return waiting
        raise self._failure or ClosedError

    def _has_news(self) -> bool:
        return bool(self._events) or self._progress is not None or self._closed


class ClosedError(Exception):
    """There is nothing more."""
