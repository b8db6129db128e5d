"""One recording on its way through the model."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Protocol, TypeVar

from transcriber.decoder import Decoder, How, Task
from transcriber.engine import Event, Heard, Reached, Request, Spoken
from transcriber.languages import to_tag
from transcriber.listening import Ended, Found, HeardWindow, Listened, listening_ahead, offset
from transcriber.placing import add_translations, place
from transcriber.tongue import Tongue
from transcriber.vad import VoiceDetector

SECONDS_BETWEEN_PROGRESS = 0.1
TRANSLATED_INTO = "en"

ResultT = TypeVar("ResultT")


class InTurn(Protocol):
    """Runs a job on the decoding thread, after those that were there before."""

    def __call__(self, job: Callable[[], ResultT], /) -> Awaitable[ResultT]: ...  # noqa: D102


class Recording:
    """Puts windows into words, one after the other, and numbers what was said."""

    def __init__(
        self, decoder: Decoder, request: Request, how: How, tongue: Tongue, in_turn: InTurn
    ) -> None:
        self._decoder = decoder
        self._how = how
        self._settled = request.settled_offset
        self._next_index = request.next_index
        self._translates = bool(request.language_out)
        self._has_translated = False
        self._in_turn = in_turn
        self._tongue = tongue
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
                if self._tongue.wants_to_listen:
                    # Windows known from an earlier run count too: it must come out the same.
                    await self._in_turn(lambda: self._listen(piece))
            case Ended():
                self._tongue.settle()

    def _reached(self, piece: Found) -> timedelta:
        if isinstance(piece, Listened) and not self._waiting:
            return piece.offset
        return self._boundary

    def _facts(self, duration: timedelta) -> Heard:
        said = self._speech or self._tongue.is_named
        return Heard(
            language=to_tag(self._tongue.mostly or "") if said else "",
            language_probability=self._tongue.probability,
            duration=duration,
            speech_duration=min(self._speech, duration),
            language_out=TRANSLATED_INTO if self._has_translated else "",
        )

    async def _put_into_words(self, window: HeardWindow) -> Sequence[Spoken]:
        known = offset(window.span.end) <= self._settled
        heard = [] if known else await self._in_turn(lambda: self._hear(window))
        before, self._boundary = self._boundary, offset(window.span.end)
        spoken = [
            replace(piece, index=self._next_index + number, settled_offset=before)
            for number, piece in enumerate(heard)
        ]
        self._next_index += len(spoken)
        # Only the last piece settles the window: whoever has it has them all.
        last = [replace(piece, settled_offset=self._boundary) for piece in spoken[-1:]]
        return [*spoken[:-1], *last]

    # From here on it runs on the decoding thread.

    def _listen(self, window: HeardWindow) -> None:
        self._tongue.listen(self._decoder, window, self._abandoned.is_set)

    def _hear(self, window: HeardWindow) -> list[Spoken]:
        language = self._tongue.of(window)
        if language is None:
            return []
        spoken = self._decode(window, language, "transcribe")
        if not self._translates or language == TRANSLATED_INTO:
            return spoken
        translated = self._decode(window, language, "translate")
        self._has_translated = self._has_translated or bool(spoken and translated)
        return add_translations(spoken, translated)

    def _decode(self, window: HeardWindow, language: str, task: Task) -> list[Spoken]:
        if self._abandoned.is_set():
            return []
        # A prompt is in the language spoken, and words of a translation were never said.
        how = self._how if task == "transcribe" else How(self._how.beam_size, task=task)
        phrases = self._decoder.decode(window.audio(), language, how, self._abandoned.is_set)
        return list(place(phrases, window.span, to_tag(language)))


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
