"""Whisper, run by CTranslate2, as a Decoder: one pass a window, unless the pass went wrong."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import ctranslate2
import numpy as np
from faster_whisper import WhisperModel
from faster_whisper.tokenizer import Tokenizer
from faster_whisper.transcribe import get_suppressed_tokens

from mesh.errors import UnavailableError
from mesh.languages import WHISPER
from mesh.reasons import Reason
from transcriber.decoder import How, Phrase
from transcriber.heap import keep_freed_memory
from transcriber.passes import FRAMES_A_SECOND, Features, Pass, Way, ways
from transcriber.vad import Audio
from transcriber.weights import Weights

MAX_PASSES = 4

NEVER_TRANSLATE = ("turbo", "distil")
"""Models that know the word but were not taught the task."""

TOKENS_A_SECOND, MIN_TOKENS = 25, 40
"""More than anybody speaks, in any script: what still goes on then is a loop."""


class WhisperDecoder:
    """One loaded model; deterministic, so that a resumed job continues its own text."""

    def __init__(self, weights: Weights, device: str, compute_type: str, threads: int) -> None:
        self.model = weights.name
        self.device = device
        self.compute_type = compute_type
        try:
            self._whisper = WhisperModel(
                str(weights.folder),
                device=device,
                compute_type=compute_type,
                cpu_threads=threads,
                local_files_only=True,
            )
        except (RuntimeError, ValueError, OSError) as error:
            raise UnavailableError(
                f"the model {weights.name!r} does not load on {device} as {compute_type}: {error}",
                reason=Reason.MODEL_UNAVAILABLE,
            ) from error
        self._multilingual: bool = self._whisper.model.is_multilingual
        self.languages = self._languages() if self._multilingual else frozenset({"en"})
        self.translates = self._multilingual and not any(
            word in weights.name for word in NEVER_TRANSLATE
        )
        self.is_loaded, self.at_once = True, 1
        self._encoded: tuple[Features, Any] | None = None
        self._tokenizer = lru_cache(maxsize=8)(self._new_tokenizer)

    def wake(self) -> None:
        """It has been loaded since it was made."""

    def warm_up(self) -> None:
        """The first pass is slower than the rest; nobody should wait for that."""
        self._whisper.encode(np.zeros((self._whisper.model.n_mels, 200), np.float32))

    def detect(self, audio: Audio, abandoned: Callable[[], bool]) -> tuple[str, float]:
        """The code of the language spoken, and how sure that is."""
        encoded = self._encode(ways(self._features(audio), is_prompted=False)[0].features)
        token, probability = self._whisper.model.detect_language(encoded)[0][0]
        return token.strip("<|>"), float(probability)

    def decode(
        self, audio: Audio, language: str, how: How, abandoned: Callable[[], bool]
    ) -> list[Phrase]:
        """Phrases in time order."""
        features = self._features(audio)
        tokenizer = self._tokenizer(language, how.task)
        found: list[Phrase] = []
        begin = 0
        for _ in range(MAX_PASSES):
            if abandoned():
                break
            heard, way = self._hear(features[:, begin:], tokenizer, how)
            offset = begin / FRAMES_A_SECOND
            if how.word_timestamps or heard.goes_across(joint - offset for joint in how.joints):
                heard.add_words(self._whisper, self._encode(way.features))
            found += heard.phrases(offset)
            begin += heard.frames_heard
            if heard.is_whole:
                break
        return found

    def close(self) -> None:
        """Its memory goes with the last reference."""

    def _hear(self, features: Features, tokenizer: Tokenizer, how: How) -> tuple[Pass, Way]:
        """Tries one way after the other until the outcome is sound; else the best has to do."""
        tried: list[tuple[Pass, Way]] = []
        for way in ways(features, is_prompted=bool(how.initial_prompt or how.hotwords)):
            if tried and tried[-1][0].loops != way.is_cure_for_loops:
                continue
            heard = self._try(way, features.shape[1], tokenizer, how)
            tried.append((heard, way))
            if heard.is_sound:
                break
        return max(tried, key=lambda one: one[0].worth)

    def _try(self, way: Way, frames: int, tokenizer: Tokenizer, how: How) -> Pass:
        prompt = self._whisper.get_prompt(
            tokenizer,
            tokenizer.encode(f" {how.initial_prompt}") if how.initial_prompt else [],
            hotwords=how.hotwords or None,
        )
        longest = MIN_TOKENS + TOKENS_A_SECOND * frames // FRAMES_A_SECOND
        (result,) = self._whisper.model.generate(
            self._encode(way.features),
            [prompt],
            beam_size=how.beam_size,
            max_length=min(len(prompt) + longest, self._whisper.max_length),
            suppress_tokens=get_suppressed_tokens(tokenizer, [-1]),
            no_repeat_ngram_size=way.no_repeat_ngram_size,
            return_scores=True,
            return_no_speech_prob=True,
        )
        return Pass(result, tokenizer, frames, longest)

    def _encode(self, features: Features) -> Any:
        """Detecting, decoding and translating a window share the costly half of the work."""
        if self._encoded is None or not np.array_equal(self._encoded[0], features):
            self._encoded = None  # before the next is made, or it stands in the way of its buffers
            self._encoded = features, self._whisper.encode(features)
        return self._encoded[1]

    def _features(self, audio: Audio) -> Features:
        features: Features = self._whisper.feature_extractor(audio)[:, :-1]
        return features

    def _new_tokenizer(self, language: str, task: str) -> Tokenizer:
        return Tokenizer(self._whisper.hf_tokenizer, self._multilingual, task, language)

    def _languages(self) -> frozenset[str]:
        has = self._whisper.hf_tokenizer.token_to_id
        return frozenset(code for code in WHISPER if has(f"<|{code}|>") is not None)


def load_whisper(weights: Weights, device: str, compute_type: str, threads: int) -> WhisperDecoder:
    """A decoder that is ready for its first window, in a process that does nothing else."""
    keep_freed_memory()
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
