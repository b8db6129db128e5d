"""Asking a lane of a work queue for one item, without waiting for one."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from nats.aio.msg import Msg
from nats.errors import Error as NatsError
from structlog import get_logger

from mesh.bus import Bus, storing

log = get_logger(__name__)

ANSWER_SECONDS = 2.0
ONE_NOW = json.dumps({"batch": 1, "no_wait": True}).encode()
NOTHING_THERE = "404"
NOBODY_ANSWERS = "503"


class NoLaneError(Exception):
    """The broker has no such lane, or has not found it again yet."""


class Puller:
    """One question at a time; what comes too late to be an answer is given back."""

    def __init__(self, bus: Bus, stream: str) -> None:
        self._bus = bus
        self._stream = stream
        self._inbox = bus.client.new_inbox()
        self._questions = 0
        self._lane = ""
        self._answer: asyncio.Future[Msg] | None = None

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Answers are heard inside this block."""
        async with storing():
            answers = await self._bus.client.subscribe(f"{self._inbox}.*", cb=self._receive)
        try:
            yield
        finally:
            if not self._bus.client.is_closed:
                await answers.unsubscribe()

    async def ask(self, lane: str) -> Msg | None:
        """The lane's next item, or None if it has none for now."""
        self._questions += 1
        self._lane, self._answer = lane, asyncio.get_running_loop().create_future()
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{lane}"
        try:
            async with storing():
                await self._bus.client.publish(subject, ONE_NOW, reply=self._question)
                async with asyncio.timeout(ANSWER_SECONDS):
                    answer = await self._answer
        finally:
            self._answer = None
        status = _status(answer)
        if status == NOBODY_ANSWERS:
            raise NoLaneError(lane)
        if status and status != NOTHING_THERE:
            log.warning("cannot pull work", lane=lane, status=status)
        return None if status else answer

    @property
    def _question(self) -> str:
        return f"{self._inbox}.{self._questions}"

    async def _receive(self, message: Msg) -> None:
        status = _status(message)
        # An item comes under its own subject, not under that of the question.
        asked = (
            message.subject == self._question if status else message.metadata.consumer == self._lane
        )
        if asked and self._answer is not None and not self._answer.done():
            self._answer.set_result(message)
        elif not status:
            with suppress(NatsError):
                await message.nak()


def _status(message: Msg) -> str:
    """Set if the broker itself speaks."""
    return "" if message.reply else (message.headers or {}).get("Status", "?")
