"""The speech engine: recordings share the loaded models, window by window."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial
from time import monotonic
from typing import TypeVar

from structlog import get_logger

from mesh.errors import InvalidRequestError, UnavailableError, UnsupportedError
from mesh.frames import joined
from mesh.reasons import Reason
from mesh.slots import Slot, in_slot
from transcriber.decoder import DecodeOptions, Decoder
from transcriber.engine import (
    Event,
    ModelInfo,
    ModelState,
    Phase,
    Preparing,
    Request,
    Started,
    TranslationInfo,
    Waiting,
)
from transcriber.speech.language_detection import (
    LanguageDetector,
    WindowLanguageDetector,
    to_code,
    to_tags,
)
from transcriber.speech.listener import Listener
from transcriber.speech.recording import Recording
from transcriber.speech.vad import SileroDetector, VoiceDetector
from transcriber.translation.routing import TranslationRouter
from transcriber.translation.translator import Models, Translator

log = get_logger(__name__)

MAX_BEAM_SIZE = 10
SECONDS_BETWEEN_LINES = 5.0
LOOK_SECONDS = 0.1
"""How often callers get load progress."""

ResultT = TypeVar("ResultT")


class Preparation:
    """Progress of the first load: written by the loading thread, read by any other."""

    def __init__(self) -> None:
        self.now = Preparing("", Phase.LOADING)
        self._abandoned = False
        self._next_line = 0.0

    def fetching(self, model: str, done_bytes: int, total_bytes: int | None) -> None:
        """Records fetched bytes; raises once the service stops, which ends the fetch."""
        if self._abandoned:
            raise UnavailableError("the service stops", reason=Reason.STAGE_UNAVAILABLE)
        self.now = Preparing(model, Phase.FETCHING, done_bytes, total_bytes)
        if monotonic() >= self._next_line:
            self._next_line = monotonic() + SECONDS_BETWEEN_LINES
            log.info("fetching model", model=model, done_bytes=done_bytes, total_bytes=total_bytes)

    def loading(self, model: str) -> None:
        """Records that the weights are on disk."""
        self.now = Preparing(model, Phase.LOADING)

    def abandon(self) -> None:
        """Makes a fetch that is under way end with its next chunk."""
        self._abandoned = True


class _Model:
    """Loaded models and the threads that wait for them.

    The decoder chooses among their windows; every recording has the same number there.
    """

    def __init__(self, models: Models, recordings: int) -> None:
        self.all = models
        self.decoder = models.decoder
        self.concurrency = models.decoder.concurrency
        self._threads = ThreadPoolExecutor(
            self.concurrency * recordings, thread_name_prefix="decoding"
        )

    async def run(self, job: Callable[[], ResultT], /) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._threads, job)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.decoder.close()
        if self.all.translator is not None:
            self.all.translator.close()


class StreamingEngine:
    """Transcribes several recordings at once; their windows take turns at the model."""

    def __init__(  # noqa: PLR0913 # what it computes with, and how much at once
        self,
        load: Callable[[Preparation], Models],
        list_models: Callable[[Decoder | None], Sequence[ModelInfo]],
        *,
        beam_size: int = 5,
        max_recordings: int = 4,
        max_live_streams: int = 4,
        new_detector: Callable[[], VoiceDetector] = SileroDetector,
    ) -> None:
        self._load = load
        self._list_models = list_models
        self._beam_size = beam_size
        self._slots = asyncio.Semaphore(max_recordings)
        self._live_slots = asyncio.Semaphore(max_live_streams)
        self._all_slots = max_recordings + max_live_streams
        self._new_detector = new_detector
        self._preparation = Preparation()
        self._model: asyncio.Future[_Model] = asyncio.get_running_loop().create_future()
        self._loads: dict[str, asyncio.Future[None]] = {}
        """Reloads of freed models, by name; all recordings that wait for one share it."""

    async def get_ready(self) -> None:
        """Loads the models; earlier calls wait for this."""
        try:
            models = await asyncio.to_thread(self._load, self._preparation)
        except Exception as error:
            self._model.set_exception(error)
            self._model.exception()  # mark as retrieved even if no call waits
            raise
        self._model.set_result(_Model(models, self._all_slots))

    def close(self) -> None:
        """Stops the fetch or decode that is under way; later calls fail."""
        self._preparation.abandon()
        if model := self._loaded():
            model.close()

    def transcribe(
        self, samples: AsyncIterator[bytes], request: Request
    ) -> AsyncGenerator[Event, None]:
        """Preparing until loaded, Started, Segment in time order and Progress, then Finished.

        The call has a slot only while audio flows. A live stream keeps its slot once audio came.
        """
        slots = self._live_slots if request.live_stream else self._slots
        return in_slot(slots, partial(self._transcribe, samples, request), Waiting())

    async def _transcribe(
        self, samples: AsyncIterator[bytes], request: Request, slot: Slot
    ) -> AsyncGenerator[Event, None]:
        options = self._options(request)
        async for preparing in self._until_loaded():
            yield preparing
        model = await asyncio.shield(self._model)
        decoder = model.decoder
        language_detector, router = (
            _language_detector(request, decoder),
            TranslationRouter(request, model.all),
        )
        translator = model.all.translator if router.model else None
        for needed in [decoder, translator]:
            if needed is not None and not needed.is_loaded:
                yield Preparing(needed.model, Phase.LOADING)
                await self._ensure_loaded(model, needed)
        yield Started(decoder.model, decoder.device, decoder.compute_type, router.model)
        first = await anext(samples, b"")
        await slot.take()
        rest = samples if request.live_stream else slot.while_flowing(samples)
        recording = Recording(decoder, request, options, language_detector, router, model)
        listener = Listener(
            self._new_detector(), wait_for_short=not (request.live or request.mixed_languages)
        )
        async with aclosing(recording.events(joined(first, rest), listener)) as events:
            async for event in events:
                yield event

    async def _until_loaded(self) -> AsyncIterator[Preparing]:
        progress: Preparing | None = None
        while not self._model.done():
            if self._preparation.now != progress:
                progress = self._preparation.now
                yield progress
            await asyncio.wait({self._model}, timeout=LOOK_SECONDS)

    async def _ensure_loaded(self, model: _Model, needed: Decoder | Translator) -> None:
        loading = self._loads.get(needed.model)
        if loading is None:
            loading = asyncio.ensure_future(model.run(needed.ensure_loaded))
            self._loads[needed.model] = loading
            # The load goes on without callers that gave up; then its error is not awaited.
            loading.add_done_callback(lambda _: self._load_done(needed.model))
        await asyncio.shield(loading)

    def _load_done(self, name: str) -> None:
        loading = self._loads.pop(name)
        if not loading.cancelled():
            loading.exception()

    def state(self) -> ModelState:
        """State of the model."""
        if not self._model.done():
            return ModelState(self._preparation.now.model, False, self._preparation.now)
        model = self._loaded()
        if model is None:
            return ModelState("", False, None)
        loading = next((Preparing(name, Phase.LOADING) for name in self._loads), None)
        return ModelState(model.decoder.model, model.decoder.is_loaded, loading)

    def translations(self) -> Sequence[TranslationInfo]:
        """Available translations, the preferred model first."""
        model = self._loaded()
        return [
            TranslationInfo(can.model, to_tags(can.sources), to_tags(can.targets))
            for can in (model.all.translations if model else ())
        ]

    async def models(self) -> Sequence[ModelInfo]:
        """Models that load without a network, best first."""
        model = self._loaded()
        return await asyncio.to_thread(self._list_models, model.decoder if model else None)

    def _loaded(self) -> _Model | None:
        ready = self._model.done() and not self._model.exception()
        return self._model.result() if ready else None

    def _options(self, request: Request) -> DecodeOptions:
        beam_size = request.beam_size or self._beam_size
        if not 1 <= beam_size <= MAX_BEAM_SIZE:
            raise InvalidRequestError(
                f"beam_size {beam_size} is not within 1 to {MAX_BEAM_SIZE}",
                reason=Reason.REQUEST_INVALID,
            )
        return DecodeOptions(
            beam_size, request.word_timestamps, request.initial_prompt, request.hotwords
        )


def _language_detector(request: Request, decoder: Decoder) -> LanguageDetector:
    if request.language and request.languages:
        raise InvalidRequestError(
            "languages and language exclude each other", reason=Reason.REQUEST_INVALID
        )
    candidates = frozenset(to_code(tag, decoder.languages) for tag in request.languages)
    if not request.mixed_languages:
        named = to_code(request.language, decoder.languages) if request.language else None
        return LanguageDetector(named, decoder.languages, candidates)
    if request.language:
        raise InvalidRequestError(
            "mixed_languages and language exclude each other", reason=Reason.REQUEST_INVALID
        )
    if len(decoder.languages) == 1:
        raise UnsupportedError(
            f"the model {decoder.model!r} supports one language only",
            reason=Reason.LANGUAGE_UNSUPPORTED,
        )
    return WindowLanguageDetector(decoder.languages, candidates)
