"""One recording on its way through the model."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol, TypeVar

from mesh.languages import tag_of
from mesh.tasks import stop
from transcriber.decoder import Decoder, How, Task
from transcriber.engine import Event, Heard, Reached, Request, Spoken
from transcriber.interpreting import Interpreter, Way
from transcriber.listening import Ended, Found, HeardWindow, Listened, listening_ahead, offset
from transcriber.placing import add_translations, joints, place
from transcriber.tongue import Tongue
from transcriber.vad import VoiceDetector

SECONDS_BETWEEN_PROGRESS = 0.1
MOST_AHEAD = 4
"""Windows under way for each that is being decoded: one that takes long holds up few others."""

ResultT = TypeVar("ResultT")


class Turns(Protocol):
    """Threads that ask the decoder, one job each, first come, first served."""

    at_once: int
    """How many there are."""

    def take(self, job: Callable[[], ResultT], /) -> Awaitable[ResultT]:
        """Runs a job after those that were there before."""
        ...


@dataclass(frozen=True, slots=True)
class _Begun:
    """A window on its way through the model."""

    window: HeardWindow
    heard: asyncio.Future[list[Spoken]]


@dataclass(frozen=True, slots=True)
class _Worded:
    """A window and what was said in it."""

    window: HeardWindow
    spoken: Sequence[Spoken]


_Step = _Worded | Listened | Ended


class Recording:
    """Puts windows into words, one after the other, and numbers what was said."""

    def __init__(  # noqa: PLR0913 # what a recording is made of
        self,
        decoder: Decoder,
        request: Request,
        how: How,
        tongue: Tongue,
        interpreter: Interpreter,
        turns: Turns,
    ) -> None:
        self._decoder = decoder
        self._interpreter = interpreter
        self._how = how
        self._settled = request.settled_offset
        self._next_index = request.next_index
        self._has_translated = False
        self._in_turn = turns.take
        self._at_once = turns.at_once
        self._tongue = tongue
        self._waiting: deque[HeardWindow] = deque()
        """Windows that are complete, while the language is still unknown."""
        self._under_way: deque[_Begun] = deque()
        self._boundary = timedelta(0)
        self._speech = timedelta(0)
        self._abandoned = threading.Event()
        self._pace = _Pace()

    async def events(
        self, samples: AsyncIterator[bytes], detector: VoiceDetector
    ) -> AsyncGenerator[Event, None]:
        """Spoken and Reached while audio arrives, then Heard."""
        try:
            async with (
                listening_ahead(samples, detector) as pieces,
                aclosing(self._steps(pieces)) as steps,
            ):
                async for step in steps:
                    if isinstance(step, Ended):
                        yield Reached(self._pace.went(step.duration))
                        yield self._facts(step.duration)
                        continue
                    if isinstance(step, _Worded):
                        for spoken in self._number(step):
                            yield spoken
                    if self._pace.is_due(self._reached(step)):
                        yield Reached(self._pace.went(self._reached(step)))
        finally:
            self._abandoned.set()

    async def _steps(self, pieces: AsyncIterator[Found]) -> AsyncGenerator[_Step, None]:
        """Windows put into words, in order; what else was found, when it was; the end last."""
        ended: Ended | None = None
        coming: asyncio.Task[Found] | None = None
        try:
            while ended is None or self._under_way:
                coming = coming or (None if ended else asyncio.create_task(_next(pieces)))
                await self._until_one_is_done(coming)
                if worded := self._take_out():
                    yield worded
                elif coming and coming.done() and self._has_room:
                    piece, coming = coming.result(), None
                    await self._take_in(piece)
                    ended = piece if isinstance(piece, Ended) else None
                    if isinstance(piece, Listened):
                        yield piece
            yield ended
        finally:
            await stop(*(task for task in [coming] if task is not None))
            for begun in self._under_way:
                begun.heard.cancel()

    @property
    def _has_room(self) -> bool:
        # What is done but must wait for a slower one before it takes nobody's turn.
        busy = sum(not begun.heard.done() for begun in self._under_way)
        return busy < self._at_once and len(self._under_way) < MOST_AHEAD * self._at_once

    async def _until_one_is_done(self, coming: asyncio.Task[Found] | None) -> None:
        undone = {begun.heard for begun in self._under_way if not begun.heard.done()}
        oldest = {begun.heard for begun in list(self._under_way)[:1]}
        newest = {coming} if coming and self._has_room else set()
        await asyncio.wait(undone | oldest | newest, return_when=asyncio.FIRST_COMPLETED)

    def _take_out(self) -> _Worded | None:
        if not self._under_way or not self._under_way[0].heard.done():
            return None
        begun = self._under_way.popleft()
        return _Worded(begun.window, begun.heard.result())

    async def _take_in(self, piece: Found) -> None:
        match piece:
            case HeardWindow():
                self._speech += offset(piece.span.speech)
                self._waiting.append(piece)
                if self._tongue.wants_to_listen:
                    # Windows known from an earlier run count too: it must come out the same.
                    await self._in_turn(lambda: self._listen(piece))
            case Ended():
                self._tongue.settle()
        while self._waiting and self._tongue.settled:
            self._under_way.append(self._begin(self._waiting.popleft()))

    def _begin(self, window: HeardWindow) -> _Begun:
        language = self._tongue.of(window)
        known = offset(window.span.end) <= self._settled
        hear = self._in_turn(lambda: [] if known else self._hear(window, language))
        return _Begun(window, asyncio.ensure_future(hear))

    def _reached(self, step: _Step) -> timedelta:
        is_idle = not self._waiting and not self._under_way
        return step.offset if isinstance(step, Listened) and is_idle else self._boundary

    def _facts(self, duration: timedelta) -> Heard:
        said = self._speech or self._tongue.is_named
        return Heard(
            language=tag_of(self._tongue.mostly or "") if said else "",
            language_probability=self._tongue.probability,
            duration=duration,
            speech_duration=min(self._speech, duration),
            language_out=tag_of(self._interpreter.target) if self._has_translated else "",
        )

    def _number(self, worded: _Worded) -> Sequence[Spoken]:
        before, self._boundary = self._boundary, offset(worded.window.span.end)
        spoken = [
            replace(piece, index=self._next_index + number, settled_offset=before)
            for number, piece in enumerate(worded.spoken)
        ]
        self._next_index += len(spoken)
        # Only the last piece settles the window: whoever has it has them all.
        last = [replace(piece, settled_offset=self._boundary) for piece in spoken[-1:]]
        return [*spoken[:-1], *last]

    # From here on it runs on a decoding thread.

    def _listen(self, window: HeardWindow) -> None:
        self._tongue.listen(self._decoder, window, self._abandoned.is_set)

    def _hear(self, window: HeardWindow, language: str | None) -> list[Spoken]:
        if language is None:
            return []
        spoken = self._decode(window, language, "transcribe")
        translated = self._translate(spoken, window, language)
        self._has_translated = self._has_translated or any(one.translation for one in translated)
        return translated

    def _translate(self, spoken: list[Spoken], window: HeardWindow, language: str) -> list[Spoken]:
        match self._interpreter.way(language):
            case Way.NOT_AT_ALL:
                return spoken
            case Way.FROM_SPEECH:
                return add_translations(spoken, self._decode(window, language, "translate"))
            case Way.FROM_TEXT:
                return self._interpreter.translate(
                    spoken, language, self._how.beam_size, self._abandoned.is_set
                )

    def _decode(self, window: HeardWindow, language: str, task: Task) -> list[Spoken]:
        if self._abandoned.is_set():
            return []
        phrases = self._decoder.decode(
            window.audio(), language, self._how_to(task, window), self._abandoned.is_set
        )
        spoken = list(place(phrases, window.span, tag_of(language)))
        return spoken if self._how.word_timestamps else [replace(one, words=()) for one in spoken]

    def _how_to(self, task: Task, window: HeardWindow) -> How:
        if task == "translate":
            # A prompt is in the language spoken, and words of a translation were never said.
            return How(self._how.beam_size, task=task)
        # What is translated stays whole: a translation is of the phrase, not of its halves.
        return replace(self._how, joints=() if self._interpreter.target else joints(window.span))


async def _next(pieces: AsyncIterator[Found]) -> Found:
    return await anext(pieces)


class _Pace:
    """Keeps progress monotonic and seldom."""

    def __init__(self) -> None:
        self._last = timedelta(0)
        self._next = 0.0

    def is_due(self, moment: timedelta) -> bool:
        return moment > self._last and asyncio.get_running_loop().time() >= self._next

    def went(self, moment: timedelta) -> timedelta:
        self._next = asyncio.get_running_loop().time() + SECONDS_BETWEEN_PROGRESS
        self._last = max(self._last, moment)
        return self._last
