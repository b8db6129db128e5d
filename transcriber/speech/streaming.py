"""The speech engine: windows of many recordings take turns at one model."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from typing import TypeVar

from mesh.errors import InvalidRequestError, UnsupportedError
from mesh.reasons import Reason
from transcriber.decoder import Decoder, How
from transcriber.engine import (
    Event,
    ModelFacts,
    ModelState,
    Phase,
    Preparing,
    Ready,
    Request,
    TranslationFacts,
)
from transcriber.interpreting import Interpreter
from transcriber.languages import to_code, to_tags
from transcriber.preparing import Preparation
from transcriber.recording import Recording
from transcriber.tongue import MixedTongues, Tongue
from transcriber.translating import Models, Translator
from transcriber.vad import SileroDetector, VoiceDetector

MAX_BEAM_SIZE = 10
LOOK_SECONDS = 0.1
"""How soon a caller hears how far the model is."""

ResultT = TypeVar("ResultT")


class _Model:
    """Loaded models and the threads that ask them.

    First come, first served is fair: a recording asks for no more windows than are decoded at once
    before it got its oldest.
    """

    def __init__(self, models: Models) -> None:
        self.all = models
        self.decoder = models.decoder
        self.at_once = models.decoder.at_once
        self._threads = ThreadPoolExecutor(self.at_once, thread_name_prefix="decoding")

    async def take(self, job: Callable[[], ResultT], /) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._threads, job)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.decoder.close()
        if self.all.translator is not None:
            self.all.translator.close()


class StreamingEngine:
    """Hears several recordings at once and gives each its turn at the model."""

    def __init__(
        self,
        load: Callable[[Preparation], Models],
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
        self._preparation = Preparation()
        self._model: asyncio.Future[_Model] = asyncio.get_running_loop().create_future()
        self._waking: dict[str, asyncio.Future[None]] = {}
        """Loads of models that were freed; all who wait for one share it."""

    async def get_ready(self) -> None:
        """Loads the model; calls that came earlier have waited for it."""
        try:
            models = await asyncio.to_thread(self._load, self._preparation)
        except Exception as error:
            self._model.set_exception(error)
            self._model.exception()  # so that it counts as seen even if no call waits
            raise
        self._model.set_result(_Model(models))

    def close(self) -> None:
        """Ends the fetch or decode under way and starts no other."""
        self._preparation.abandon()
        if model := self._loaded():
            model.close()

    async def transcribe(
        self, samples: AsyncIterator[bytes], request: Request
    ) -> AsyncGenerator[Event, None]:
        """Preparing while it must, Ready, then Spoken in time order among Reached, then Heard."""
        how = self._how(request)
        async for preparing in self._until_loaded():
            yield preparing
        model = await asyncio.shield(self._model)
        decoder = model.decoder
        tongue, interpreter = _tongue(request, decoder), Interpreter(request, model.all)
        translator = model.all.translator if interpreter.model else None
        async with self._places:
            for needed in [decoder, translator]:
                if needed is not None and not needed.is_loaded:
                    yield Preparing(needed.model, Phase.LOADING)
                    await self._wake(model, needed)
            yield Ready(decoder.model, decoder.device, decoder.compute_type, interpreter.model)
            recording = Recording(decoder, request, how, tongue, interpreter, model)
            async with aclosing(recording.events(samples, self._new_detector())) as events:
                async for event in events:
                    yield event

    async def _until_loaded(self) -> AsyncIterator[Preparing]:
        told: Preparing | None = None
        while not self._model.done():
            if self._preparation.now != told:
                told = self._preparation.now
                yield told
            await asyncio.wait({self._model}, timeout=LOOK_SECONDS)

    async def _wake(self, model: _Model, needed: Decoder | Translator) -> None:
        waking = self._waking.get(needed.model)
        if waking is None:
            waking = asyncio.ensure_future(model.take(needed.wake))
            self._waking[needed.model] = waking
            # It goes on without those who gave up: a failure may find nobody left to hear of it.
            waking.add_done_callback(lambda _: self._awake(needed.model))
        await asyncio.shield(waking)

    def _awake(self, name: str) -> None:
        waking = self._waking.pop(name)
        if not waking.cancelled():
            waking.exception()

    def state(self) -> ModelState:
        """What the model still needs."""
        if not self._model.done():
            return ModelState(self._preparation.now.model, False, self._preparation.now)
        model = self._loaded()
        if model is None:
            return ModelState("", False, None)
        loading = next((Preparing(name, Phase.LOADING) for name in self._waking), None)
        return ModelState(model.decoder.model, model.decoder.is_loaded, loading)

    def translations(self) -> Sequence[TranslationFacts]:
        """What can be translated now, the preferred way first."""
        model = self._loaded()
        return [
            TranslationFacts(can.model, to_tags(can.sources), to_tags(can.targets))
            for can in (model.all.translations if model else ())
        ]

    async def models(self) -> Sequence[ModelFacts]:
        """What could be loaded without a network, best first."""
        model = self._loaded()
        return await asyncio.to_thread(self._list_models, model.decoder if model else None)

    def _loaded(self) -> _Model | None:
        ready = self._model.done() and not self._model.exception()
        return self._model.result() if ready else None

    def _how(self, request: Request) -> How:
        beam_size = request.beam_size or self._beam_size
        if not 1 <= beam_size <= MAX_BEAM_SIZE:
            raise InvalidRequestError(
                f"beam_size {beam_size} is not within 1 to {MAX_BEAM_SIZE}",
                reason=Reason.REQUEST_INVALID,
            )
        return How(beam_size, request.word_timestamps, request.initial_prompt, request.hotwords)


def _tongue(request: Request, decoder: Decoder) -> Tongue:
    if not request.mixed_languages:
        named = to_code(request.language, decoder.languages) if request.language else None
        return Tongue(named, decoder.languages)
    if request.language:
        raise InvalidRequestError(
            "a recording of mixed languages has none to name", reason=Reason.REQUEST_INVALID
        )
    if len(decoder.languages) == 1:
        raise UnsupportedError(
            f"the model {decoder.model!r} hears one language only",
            reason=Reason.LANGUAGE_UNSUPPORTED,
        )
    return MixedTongues(decoder.languages)
