"""One recording on its way through the model."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Protocol, TypeVar

from transcriber.decoder import Decoder, How, Phrase
from transcriber.engine import Event, Heard, Reached, Request, Spoken, SpokenWord
from transcriber.languages import to_tag
from transcriber.listening import Ended, HeardWindow, Listened, listening_ahead, offset
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
                    match piece:
                        case HeardWindow():
                            for spoken in await self._put_into_words(piece):
                                yield spoken
                            if self._pace.is_due(self._boundary):
                                yield Reached(self._pace.went(self._boundary))
                        case Listened() if self._pace.is_due(piece.offset):
                            yield Reached(self._pace.went(piece.offset))
                        case Ended():
                            yield Reached(self._pace.went(piece.duration))
                            yield self._facts(piece.duration)
        finally:
            # The model cannot be interrupted inside a window, only told that nobody waits.
            self._abandoned.set()

    def _facts(self, duration: timedelta) -> Heard:
        said = self._speech or self._named
        return Heard(
            language=to_tag(self._tongue.language or "") if said else "",
            language_probability=self._tongue.probability,
            duration=duration,
            speech_duration=min(self._speech, duration),
        )

    async def _put_into_words(self, window: HeardWindow) -> Sequence[Spoken]:
        end = offset(window.span.end)
        self._speech += offset(window.span.speech)
        known = end <= self._settled
        phrases: Sequence[Phrase] = ()
        # A known window still counts where it decides the language of those after it.
        if not known or not self._tongue.settled:
            phrases = await self._in_turn(lambda: self._decode(window, known))
        before, self._boundary = self._boundary, end
        spoken = [
            replace(piece, index=self._next_index + number, settled_offset=before)
            for number, piece in enumerate(self._place(phrases, window.span))
        ]
        self._next_index += len(spoken)
        # Only the last piece settles the window: whoever has it has them all.
        return [*spoken[:-1], *(replace(last, settled_offset=end) for last in spoken[-1:])]

    def _decode(self, window: HeardWindow, known: bool) -> Sequence[Phrase]:
        """Runs on the decoding thread."""
        if self._abandoned.is_set():
            return ()
        audio = window.audio()
        language = self._tongue.listen(self._decoder, audio)
        if known:
            return ()
        return self._decoder.decode(audio, language, self._how, self._abandoned.is_set)

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
