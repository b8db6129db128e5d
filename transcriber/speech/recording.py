"""Transcribes one recording: schedules its windows, numbers segments, reports progress."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol, TypeVar

from mesh.languages import CHINESE, tag_of
from mesh.tasks import stop
from transcriber.decoder import DecodeOptions, Decoder
from transcriber.engine import Event, Finished, Progress, Request, Segment
from transcriber.speech.language_detection import LanguageDetector
from transcriber.speech.listener import (
    AudioWindow,
    EndOfAudio,
    Listener,
    ListenerEvent,
    Position,
    offset,
    windows_ahead,
)
from transcriber.speech.scripts import in_script, is_traditional
from transcriber.speech.timestamps import add_translations, joints, place
from transcriber.speech.windows import Window
from transcriber.translation.routing import Route, TranslationRouter

SECONDS_BETWEEN_PROGRESS = 0.1
MAX_AHEAD = 2
"""Pending windows for each that is decoded: a slow window holds up few others."""

URGENT = 2
"""The first windows of a recording, which are short: they are decoded before other recordings'
later ones, and with the wide beam at once, since a viewer waits for them."""

ResultT = TypeVar("ResultT")


class DecodeExecutor(Protocol):
    """Threads that call the decoder."""

    concurrency: int
    """Windows of one recording that are decoded at the same time."""

    def run(self, job: Callable[[], ResultT], /) -> Awaitable[ResultT]:
        """Runs a function after those submitted before."""
        ...


@dataclass(frozen=True, slots=True)
class _PendingWindow:
    """A window that is queued or being decoded."""

    span: Window
    result: asyncio.Future[list[Segment]]


@dataclass(frozen=True, slots=True)
class _DecodedWindow:
    """A window and its segments."""

    span: Window
    segments: Sequence[Segment]


_Step = _DecodedWindow | Position | EndOfAudio


class Recording:
    """Decodes the windows of a recording and emits numbered segments in order."""

    def __init__(  # noqa: PLR0913 # its collaborators
        self,
        decoder: Decoder,
        request: Request,
        options: DecodeOptions,
        language_detector: LanguageDetector,
        router: TranslationRouter,
        executor: DecodeExecutor,
    ) -> None:
        self._decoder = decoder
        self._router = router
        self._options = options
        self._is_traditional = is_traditional((request.language, *request.languages))
        self._settled = request.settled_offset
        self._next_index = request.next_index
        self._has_translated = False
        self._run = executor.run
        self._concurrency = executor.concurrency
        self._language_detector = language_detector
        self._waiting: deque[AudioWindow] = deque()
        """Windows that wait for the language to be decided."""
        self._pending: deque[_PendingWindow] = deque()
        self._begun = 0
        self._boundary = timedelta(0)
        self._speech = timedelta(0)
        self._abandoned = threading.Event()
        self._pace = _Pace()

    async def events(
        self, samples: AsyncIterator[bytes], listener: Listener
    ) -> AsyncGenerator[Event, None]:
        """Segment and Progress while audio arrives, then Finished."""
        try:
            async with (
                windows_ahead(samples, listener) as found,
                aclosing(self._steps(found)) as steps,
            ):
                async for step in steps:
                    if isinstance(step, EndOfAudio):
                        yield Progress(self._pace.advance(step.duration))
                        yield self._finished(step.duration)
                        continue
                    if isinstance(step, _DecodedWindow):
                        for segment in self._number(step):
                            yield segment
                    if self._pace.is_due(self._reached(step)):
                        yield Progress(self._pace.advance(self._reached(step)))
        finally:
            self._abandoned.set()

    async def _steps(self, found: AsyncIterator[ListenerEvent]) -> AsyncGenerator[_Step, None]:
        """Decoded windows in order, positions as they come, and the end last."""
        ended: EndOfAudio | None = None
        coming: asyncio.Task[ListenerEvent] | None = None
        try:
            while ended is None or self._pending:
                coming = coming or (None if ended else asyncio.create_task(_next(found)))
                await self._until_one_is_done(coming)
                if decoded := self._next_decoded():
                    yield decoded
                elif coming and coming.done() and self._has_capacity:
                    event, coming = coming.result(), None
                    await self._accept(event)
                    ended = event if isinstance(event, EndOfAudio) else None
                    if isinstance(event, Position):
                        yield event
            yield ended
        finally:
            await stop(*(task for task in [coming] if task is not None))
            for pending in self._pending:
                pending.result.cancel()

    @property
    def _has_capacity(self) -> bool:
        # A decoded window that waits for an earlier one uses no thread.
        busy = sum(not pending.result.done() for pending in self._pending)
        return busy < self._concurrency and len(self._pending) < MAX_AHEAD * self._concurrency

    async def _until_one_is_done(self, coming: asyncio.Task[ListenerEvent] | None) -> None:
        undone = {pending.result for pending in self._pending if not pending.result.done()}
        oldest = {pending.result for pending in list(self._pending)[:1]}
        newest = {coming} if coming and self._has_capacity else set()
        await asyncio.wait(undone | oldest | newest, return_when=asyncio.FIRST_COMPLETED)

    def _next_decoded(self) -> _DecodedWindow | None:
        if not self._pending or not self._pending[0].result.done():
            return None
        pending = self._pending.popleft()
        return _DecodedWindow(pending.span, pending.result.result())

    async def _accept(self, event: ListenerEvent) -> None:
        match event:
            case AudioWindow():
                self._speech += offset(event.span.speech)
                self._waiting.append(event)
                if self._language_detector.needs_audio:
                    # Windows transcribed in an earlier run count too: the result must be the same.
                    await self._run(lambda: self._detect_language(event))
            case EndOfAudio():
                self._language_detector.decide()
        while self._waiting and self._language_detector.is_decided:
            self._pending.append(self._begin(self._waiting.popleft()))

    def _begin(self, window: AudioWindow) -> _PendingWindow:
        language = self._language_detector.language_of(window)
        known = offset(window.span.end) <= self._settled
        is_first = self._begun < URGENT
        options = replace(
            self._options,
            is_urgent=is_first,
            greedy_first=not is_first,
            full_length_first=window.is_whole,
        )
        self._begun += 1
        result = self._run(lambda: [] if known else self._transcribe(window, language, options))
        return _PendingWindow(window.span, asyncio.ensure_future(result))

    def _reached(self, step: _Step) -> timedelta:
        is_idle = not self._waiting and not self._pending
        return step.offset if isinstance(step, Position) and is_idle else self._boundary

    def _finished(self, duration: timedelta) -> Finished:
        said = self._speech or self._language_detector.is_given
        return Finished(
            language=tag_of(self._language_detector.language or "") if said else "",
            language_probability=self._language_detector.probability,
            duration=duration,
            speech_duration=min(self._speech, duration),
            language_out=tag_of(self._router.target) if self._has_translated else "",
        )

    def _number(self, decoded: _DecodedWindow) -> Sequence[Segment]:
        before, self._boundary = self._boundary, offset(decoded.span.end)
        segments = [
            replace(segment, index=self._next_index + number, settled_offset=before)
            for number, segment in enumerate(decoded.segments)
        ]
        self._next_index += len(segments)
        # Only the last segment settles the window: a job that has it has them all.
        last = [replace(segment, settled_offset=self._boundary) for segment in segments[-1:]]
        return [*segments[:-1], *last]

    # The methods below run on a decoding thread.

    def _detect_language(self, window: AudioWindow) -> None:
        self._language_detector.observe(self._decoder, window, self._abandoned.is_set)

    def _transcribe(
        self, window: AudioWindow, language: str | None, options: DecodeOptions
    ) -> list[Segment]:
        if language is None:
            return []
        segments = self._decode(window, language, options)
        translated = self._translate(segments, window, language, options)
        self._has_translated = self._has_translated or any(one.translation for one in translated)
        return translated

    def _translate(
        self,
        segments: list[Segment],
        window: AudioWindow,
        language: str,
        options: DecodeOptions,
    ) -> list[Segment]:
        match self._router.route(language):
            case Route.NONE:
                return segments
            case Route.FROM_SPEECH:
                # The prompt is in the spoken language, and translated words have no times.
                translated = DecodeOptions(
                    options.beam_size, task="translate", is_urgent=options.is_urgent
                )
                return add_translations(segments, self._decode(window, language, translated))
            case Route.FROM_TEXT:
                return self._router.translate(
                    segments, language, self._options.beam_size, self._abandoned.is_set
                )

    def _decode(self, window: AudioWindow, language: str, options: DecodeOptions) -> list[Segment]:
        if self._abandoned.is_set():
            return []
        # A phrase that is translated, or is a translation, stays whole.
        options = replace(
            options,
            joints=() if self._router.target else joints(window.span),
            speech=window.span.speech_spans,
        )
        phrases = self._decoder.decode(window.audio(), language, options, self._abandoned.is_set)
        if language == CHINESE:
            phrases = [in_script(one, traditional=self._is_traditional) for one in phrases]
        segments = list(place(phrases, window.span, tag_of(language)))
        return (
            segments
            if self._options.word_timestamps
            else [replace(one, words=()) for one in segments]
        )


async def _next(found: AsyncIterator[ListenerEvent]) -> ListenerEvent:
    return await anext(found)


class _Pace:
    """Keeps progress monotonic and rate-limited."""

    def __init__(self) -> None:
        self._last = timedelta(0)
        self._next = 0.0

    def is_due(self, moment: timedelta) -> bool:
        return moment > self._last and asyncio.get_running_loop().time() >= self._next

    def advance(self, moment: timedelta) -> timedelta:
        self._next = asyncio.get_running_loop().time() + SECONDS_BETWEEN_PROGRESS
        self._last = max(self._last, moment)
        return self._last
