"""One recording on its way through the model."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Protocol, TypeVar

from transcriber.decoder import Decoder, How, Phrase
from transcriber.engine import Event, Heard, Reached, Request, Spoken, SpokenWord
from transcriber.languages import to_tag
from transcriber.listening import Ended, Found, HeardWindow, Listened, listening_ahead, offset
from transcriber.tongue import Tongue
from transcriber.vad import VoiceDetector
from transcriber.windows import RATE, Window

SECONDS_BETWEEN_PROGRESS = 0.1

ResultT = TypeVar("ResultT")


class InTurn(Protocol):
    """Runs a job on the decoding thread, after those that were there before."""

    def __call__(self, job: Callable[[], ResultT], /) -> Awaitable[ResultT]: ...  # noqa: D102


class Recording:
    """Puts windows into words, one after the other, and numbers what was said."""

    def __init__(
        self, decoder: Decoder, request: Request, how: How, language: str | None, in_turn: InTurn
    ) -> None:
        self._decoder = decoder
        self._how = how
        self._settled = request.settled_offset
        self._next_index = request.next_index
        self._named = language is not None
        self._in_turn = in_turn
        self._tongue = Tongue(language, decoder.languages)
        self._waiting: deque[HeardWindow] = deque()
        """Windows that are complete, while the language is still unknown."""
        self._boundary = timedelta(0)
        self._speech = timedelta(0)
        self._abandoned = threading.Event()
        self._pace = _Pace()

    async def events(
        self, samples: AsyncIterator[bytes], detector: VoiceDetector
    ) -> AsyncGenerator[Event, None]:
        """Spoken and Reached while audio arrives, then Heard."""
        try:
            async with listening_ahead(samples, detector) as pieces:
                async for piece in pieces:
                    await self._take_in(piece)
                    while self._waiting and self._tongue.settled:
                        for spoken in await self._put_into_words(self._waiting.popleft()):
                            yield spoken
                    if self._pace.is_due(self._reached(piece)):
                        yield Reached(self._pace.went(self._reached(piece)))
                    if isinstance(piece, Ended):
                        yield Reached(self._pace.went(piece.duration))
                        yield self._facts(piece.duration)
        finally:
            self._abandoned.set()

    async def _take_in(self, piece: Found) -> None:
        match piece:
            case HeardWindow():
                self._speech += offset(piece.span.speech)
                self._waiting.append(piece)
                if not self._tongue.settled:
                    # Windows known from an earlier run count too: it must come out the same.
                    await self._in_turn(lambda: self._listen(piece))
            case Ended():
                self._tongue.settle()

    def _reached(self, piece: Found) -> timedelta:
        if isinstance(piece, Listened) and not self._waiting:
            return piece.offset
        return self._boundary

    def _facts(self, duration: timedelta) -> Heard:
        said = self._speech or self._named
        return Heard(
            language=to_tag(self._tongue.language or "") if said else "",
            language_probability=self._tongue.probability,
            duration=duration,
            speech_duration=min(self._speech, duration),
        )

    async def _put_into_words(self, window: HeardWindow) -> Sequence[Spoken]:
        span, known = window.span, offset(window.span.end) <= self._settled
        phrases = () if known else await self._in_turn(lambda: self._decode(window))
        before, self._boundary = self._boundary, offset(span.end)
        spoken = [
            replace(piece, index=self._next_index + number, settled_offset=before)
            for number, piece in enumerate(self._place(phrases, span))
        ]
        self._next_index += len(spoken)
        # Only the last piece settles the window: whoever has it has them all.
        last = [replace(piece, settled_offset=self._boundary) for piece in spoken[-1:]]
        return [*spoken[:-1], *last]

    def _listen(self, window: HeardWindow) -> None:
        """Runs on the decoding thread."""
        self._tongue.listen(self._decoder, window.audio(), self._abandoned.is_set)

    def _decode(self, window: HeardWindow) -> Sequence[Phrase]:
        """Runs on the decoding thread."""
        language = self._tongue.language
        if language is None or self._abandoned.is_set():
            return ()
        return self._decoder.decode(window.audio(), language, self._how, self._abandoned.is_set)

    def _place(self, phrases: Sequence[Phrase], span: Window) -> Iterator[Spoken]:
        """Phrases at their place in the recording; times stay in order and in the window."""
        language = to_tag(self._tongue.language or "")
        begin, end = offset(span.start), offset(span.end)
        quiet_from = (span.speech_end - span.start) / RATE
        earliest = begin

        def placed(seconds: float) -> timedelta:
            moment = begin + timedelta(milliseconds=round(seconds * 1000))
            return min(max(moment, earliest), end)

        for number, phrase in enumerate(phrases):
            text = phrase.text.strip()
            # What begins after the last speech was not said: models fill quiet with pleasantries.
            if not text or (number and phrase.start >= quiet_from):
                continue
            start, stop = placed(phrase.start), placed(phrase.end)
            words = tuple(
                SpokenWord(placed(word.start), placed(word.end), word.text.strip(), word.confidence)
                for word in phrase.words
            )
            yield Spoken(
                0, start, max(start, stop), text, words, phrase.confidence, language, timedelta(0)
            )
            earliest = max(start, stop)


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
