"""faster-whisper as a Decoder."""

import math
import os
from collections.abc import Callable
from threading import RLock
from typing import Any

import ctranslate2
import numpy as np
from faster_whisper import WhisperModel
from tqdm import tqdm

from mesh.errors import UnavailableError
from mesh.reasons import Reason
from transcriber.decoder import How, Phrase, Word
from transcriber.languages import ALL
from transcriber.vad import Audio
from transcriber.weights import Weights

MAX_COMPRESSION = 2.4
"""Text that compresses better than this repeats itself: Whisper's own sign of a loop."""

MAX_AUTO_THREADS = 8
"""Beyond this more threads wait for each other."""


class _EncodesOnce(WhisperModel):  # type: ignore[misc] # ships no types
    """Detecting the language and decoding share the costly half of the work."""

    _features: Any = None
    _encoded: Any = None

    def encode(self, features: Any) -> Any:
        if self._features is None or not np.array_equal(self._features, features):
            self._features, self._encoded = features, super().encode(features)
        return self._encoded


class WhisperDecoder:
    """One loaded model; deterministic, so that a resumed job continues its own text."""

    def __init__(self, weights: Weights, device: str, compute_type: str, threads: int) -> None:
        self.model = weights.name
        self.device = device
        self.compute_type = compute_type
        try:
            self._whisper = _EncodesOnce(
                str(weights.folder),
                device=device,
                compute_type=compute_type,
                cpu_threads=threads or _auto_threads(),
                local_files_only=True,
            )
        except (RuntimeError, ValueError, OSError) as error:
            raise UnavailableError(
                f"the model {weights.name!r} does not load on {device} as {compute_type}: {error}",
                reason=Reason.MODEL_UNAVAILABLE,
            ) from error
        multilingual = self._whisper.model.is_multilingual
        self.languages = self._languages() if multilingual else frozenset({"en"})

    def warm_up(self) -> None:
        """The first pass is slower than the rest; nobody should wait for that."""
        self._whisper.encode(np.zeros((self._whisper.model.n_mels, 200), np.float32))

    def detect(self, audio: Audio, abandoned: Callable[[], bool]) -> tuple[str, float]:
        """The code of the language spoken, and how sure that is."""
        # Without the last frame, as the decoder will cut it: only then is the encoding shared.
        features = self._whisper.feature_extractor(audio)[..., :-1]
        code, probability, _ = self._whisper.detect_language(features=features)
        return code, float(probability)

    def decode(
        self, audio: Audio, language: str, how: How, abandoned: Callable[[], bool]
    ) -> list[Phrase]:
        """Phrases in time order."""
        found = self._decode(audio, language, how, abandoned)
        if any(segment.compression_ratio > MAX_COMPRESSION for segment in found):
            # Whisper's usual way out of a loop is to roll dice at a higher temperature. Forbidding
            # the repetition works as well, costs one more pass instead of five, and gives the
            # same text every time.
            found = self._decode(audio, language, how, abandoned, no_repeat_ngram_size=4)
        return [_phrase(segment) for segment in found]

    def close(self) -> None:
        """Its memory goes with the last reference."""

    def _decode(
        self,
        audio: Audio,
        language: str,
        how: How,
        abandoned: Callable[[], bool],
        **options: Any,
    ) -> list[Any]:
        segments, _ = self._whisper.transcribe(
            audio,
            language=language,
            task="transcribe",
            beam_size=how.beam_size,
            temperature=0.0,
            condition_on_previous_text=False,
            vad_filter=False,
            without_timestamps=False,
            word_timestamps=how.word_timestamps,
            initial_prompt=how.initial_prompt or None,
            **options,
        )
        found = []
        for segment in segments:  # a window may take several passes
            if abandoned():
                break
            found.append(segment)
        return found

    def _languages(self) -> frozenset[str]:
        has = self._whisper.hf_tokenizer.token_to_id
        return frozenset(code for code in ALL if has(f"<|{code}|>") is not None)


def load_whisper(weights: Weights, device: str, compute_type: str, threads: int) -> WhisperDecoder:
    """A decoder that is ready for its first window."""
    tqdm.set_lock(RLock())  # its own would be shared between processes, and outlive a killed one
    decoder = WhisperDecoder(weights, device, compute_type, threads)
    decoder.warm_up()
    return decoder


def choose_device(asked: str) -> str:
    """ "cuda" if asked for or there; else "cpu"."""
    if asked != "auto":
        return asked
    return "cuda" if ctranslate2.get_cuda_device_count() else "cpu"


def choose_compute_type(asked: str, device: str) -> str:
    """The fastest type that keeps the quality on this device."""
    if asked != "auto":
        return asked
    supported = ctranslate2.get_supported_compute_types(device)
    wanted = ("float16", "int8_float32") if device == "cuda" else ("int8",)
    return next((kind for kind in wanted if kind in supported), "float32")


def _auto_threads() -> int:
    # What this process may use, not what the machine has, where the system tells.
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(allowed or 1, MAX_AUTO_THREADS)


def _phrase(segment: Any) -> Phrase:
    words = tuple(
        Word(word.start, word.end, word.word, float(word.probability))
        for word in segment.words or ()
    )
    return Phrase(segment.start, segment.end, segment.text, math.exp(segment.avg_logprob), words)
