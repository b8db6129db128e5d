"""Whisper, run by CTranslate2, as a Decoder: one decode per window, then fallbacks."""

from collections.abc import Callable
from dataclasses import replace
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
from transcriber.decoder import Audio, DecodeOptions, Phrase, Weights
from transcriber.speech.decode_fallbacks import (
    FRAMES_PER_SECOND,
    DecodeResult,
    Features,
    Strategy,
    short_window,
    strategies,
)

MAX_PASSES = 4

NEVER_TRANSLATE = ("turbo", "distil")
"""Models that have the token but were not trained for the task."""

TOKENS_PER_SECOND, MIN_TOKENS = 25, 40
"""More tokens than speech needs in any script: beyond this the model loops."""


class WhisperDecoder:
    """One loaded model; deterministic, so that a resumed job gives the same text."""

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
        self.is_loaded, self.concurrency = True, 1
        self._encoded: tuple[Features, Any] | None = None
        self._tokenizer = lru_cache(maxsize=8)(self._new_tokenizer)

    def ensure_loaded(self) -> None:
        """Does nothing: the constructor loads."""

    def warm_up(self) -> None:
        """Encodes silence once: the first encode is slower than the rest."""
        self._whisper.encode(np.zeros((self._whisper.model.n_mels, 200), np.float32))

    def detect(self, audio: Audio, abandoned: Callable[[], bool]) -> dict[str, float]:
        """The probability of each language, by code."""
        encoded = self._encode(short_window(self._features(audio)))
        (found,) = self._whisper.model.detect_language(encoded)
        return {token.strip("<|>"): float(probability) for token, probability in found}

    def decode(
        self, audio: Audio, language: str, options: DecodeOptions, abandoned: Callable[[], bool]
    ) -> list[Phrase]:
        """Phrases in time order."""
        features = self._features(audio)
        tokenizer = self._tokenizer(language, options.task)
        found: list[Phrase] = []
        begin = 0
        for _ in range(MAX_PASSES):
            if abandoned():
                break
            offset = begin / FRAMES_PER_SECOND
            decoded, strategy = self._decode_with_fallbacks(
                features[:, begin:], tokenizer, _from(offset, options)
            )
            if options.word_timestamps or decoded.spans_any(
                joint - offset for joint in options.joints
            ):
                decoded.add_words(self._whisper, self._encode(strategy.features))
            found += decoded.phrases(offset)
            begin += decoded.frames_decoded
            if decoded.is_complete:
                break
        return found

    def close(self) -> None:
        """Does nothing: memory goes with the last reference."""

    def _decode_with_fallbacks(
        self, features: Features, tokenizer: Tokenizer, options: DecodeOptions
    ) -> tuple[DecodeResult, Strategy]:
        """Tries strategies in order until a result is acceptable; else returns the best."""
        tried: list[tuple[DecodeResult, Strategy]] = []
        is_prompted = bool(options.initial_prompt or options.hotwords)
        for strategy in strategies(features, options.beam_size, is_prompted=is_prompted):
            if strategy.forbids_repetition and not tried[-1][0].is_repetitive:
                continue
            decoded = self._try(strategy, features.shape[1], tokenizer, options)
            tried.append((decoded, strategy))
            if decoded.is_acceptable:
                break
        return max(tried, key=lambda one: one[0].rank)

    def _try(
        self, strategy: Strategy, frames: int, tokenizer: Tokenizer, options: DecodeOptions
    ) -> DecodeResult:
        prompt = self._whisper.get_prompt(
            tokenizer,
            tokenizer.encode(f" {options.initial_prompt}") if options.initial_prompt else [],
            hotwords=options.hotwords or None,
        )
        longest = MIN_TOKENS + TOKENS_PER_SECOND * frames // FRAMES_PER_SECOND
        (result,) = self._whisper.model.generate(
            self._encode(strategy.features),
            [prompt],
            beam_size=strategy.beam_size,
            max_length=min(len(prompt) + longest, self._whisper.max_length),
            suppress_tokens=get_suppressed_tokens(tokenizer, [-1]),
            no_repeat_ngram_size=strategy.no_repeat_ngram_size,
            return_scores=True,
            return_no_speech_prob=True,
        )
        return DecodeResult(result, tokenizer, frames, longest, options.speech)

    def _encode(self, features: Features) -> Any:
        """Caches the last encoding: detect, decode and translate share the costly half."""
        if self._encoded is None or not np.array_equal(self._encoded[0], features):
            self._encoded = None  # frees its buffers for the next encode
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


def _from(offset: float, options: DecodeOptions) -> DecodeOptions:
    """The options for the rest of a window, with the speech timed from there."""
    if not offset:
        return options
    speech = ((max(start - offset, 0.0), end - offset) for start, end in options.speech)
    return replace(options, speech=tuple(span for span in speech if span[1] > 0))


def choose_device(asked: str) -> str:
    """The configured device; auto: "cuda" if there is one, else "cpu"."""
    if asked != "auto":
        return asked
    return "cuda" if ctranslate2.get_cuda_device_count() else "cpu"


def choose_compute_type(asked: str, device: str) -> str:
    """The fastest type without loss of quality on this device."""
    if asked != "auto":
        return asked
    supported = ctranslate2.get_supported_compute_types(device)
    wanted = ("float16", "int8_float32") if device == "cuda" else ("int8",)
    return next((kind for kind in wanted if kind in supported), "float32")
