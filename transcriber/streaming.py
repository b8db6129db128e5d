"""The speech engine: windows of many recordings, one model, one thread."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import TypeVar

from mesh.errors import InvalidRequestError, UnsupportedError
from mesh.reasons import Reason
from transcriber.decoder import Decoder, How
from transcriber.engine import Event, ModelFacts, Ready, Request
from transcriber.languages import to_code
from transcriber.recording import Recording
from transcriber.vad import SileroDetector, VoiceDetector

MAX_BEAM_SIZE = 10

ResultT = TypeVar("ResultT")


class StreamingEngine:
    """Hears several recordings at once and gives each its turn at the model."""

    def __init__(
        self,
        load: Callable[[], Decoder],
        list_models: Callable[[Decoder | None], Sequence[ModelFacts]],
        *,
        beam_size: int = 5,
        max_recordings: int = 4,
        new_detector: Callable[[], VoiceDetector] = SileroDetector,
    ) -> None:
        self._load = load
        self._list_models = list_models
        self._beam_size = beam_size
        self._places = asyncio.Semaphore(max_recordings)
        self._new_detector = new_detector
        # One thread, because parallel use of one model leaks. First come, first served is fair:
        # a recording asks for its next window only after it got the last.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="decoding")
        self._decoder: asyncio.Future[Decoder] = asyncio.get_running_loop().create_future()

    async def get_ready(self) -> None:
        """Loads the model; calls that came earlier have waited for it."""
        try:
            decoder = await self._in_turn(self._load)
        except Exception as error:
            self._decoder.set_exception(error)
            self._decoder.exception()  # so that it counts as seen even if no call waits
            raise
        self._decoder.set_result(decoder)

    def close(self) -> None:
        """Ends the decode under way and starts no other."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if decoder := self._loaded():
            decoder.close()

    async def transcribe(
        self, samples: AsyncIterator[bytes], request: Request
    ) -> AsyncGenerator[Event, None]:
        """Ready, then Spoken in time order among Reached, then Heard."""
        how = self._how(request)
        decoder = await asyncio.shield(self._decoder)
        language = to_code(request.language, decoder.languages) if request.language else None
        async with self._places:
            yield Ready(decoder.model, decoder.device, decoder.compute_type)
            recording = Recording(decoder, request, how, language, self._in_turn)
            async with aclosing(recording.events(samples, self._new_detector())) as events:
                async for event in events:
                    yield event

    async def models(self) -> Sequence[ModelFacts]:
        """What could be loaded without a network, best first."""
        return await asyncio.to_thread(self._list_models, self._loaded())

    def _loaded(self) -> Decoder | None:
        ready = self._decoder.done() and not self._decoder.exception()
        return self._decoder.result() if ready else None

    async def _in_turn(self, job: Callable[[], ResultT]) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._thread, job)

    def _how(self, request: Request) -> How:
        if request.language_out:
            raise UnsupportedError(
                "this version does not translate", reason=Reason.TRANSLATION_UNSUPPORTED
            )
        beam_size = request.beam_size or self._beam_size
        if not 1 <= beam_size <= MAX_BEAM_SIZE:
            raise InvalidRequestError(
                f"beam_size {beam_size} is not within 1 to {MAX_BEAM_SIZE}",
                reason=Reason.REQUEST_INVALID,
            )
        return How(beam_size, request.word_timestamps, request.initial_prompt)
