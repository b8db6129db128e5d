"""Whisper, run by CTranslate2, as a Decoder: one decode per window, then fallbacks."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import ctranslate2
import numpy as np
from faster_whisper import WhisperModel
from faster_whisper.tokenizer import Tokenizer
from faster_whisper.transcribe import get_suppressed_tokens

from mesh.errors import UnavailableError
from mesh.languages import WHISPER
from mesh.reasons import Reason
from transcriber.decoder import Audio, DecodeOptions, Phrase, Weights, to_floats
from transcriber.speech.batching import MAX_BATCH, Alone, Batcher, Steps, Together
from transcriber.speech.decode_fallbacks import (
    FRAMES_PER_SECOND,
    DecodeResult,
    Features,
    Strategy,
    padded,
    short_length,
    strategies,
)

MAX_PASSES = 4

CACHED_ENCODINGS = 4
"""Of 3 MB each (base)."""

NEVER_TRANSLATE = ("turbo", "distil")
"""Models that have the token but were not trained for the task."""

TOKENS_PER_SECOND, MIN_TOKENS = 25, 40
"""More tokens than speech needs in any script: beyond this the model loops."""


@dataclass(frozen=True, slots=True)
class _Generation:
    """Tokens wanted for one encoded window."""

    encoded: Any
    prompt: list[int]
    beam_size: int
    no_repeat_ngram_size: int
    max_length: int

    @property
    def key(self) -> tuple[int, ...]:
        """Equal for generations that may share a batch."""
        settings = self.beam_size, self.no_repeat_ngram_size, self.max_length
        return self.encoded.shape[1], len(self.prompt), *settings


class WhisperDecoder:
    """One loaded model; deterministic, so that a resumed job gives the same text."""

    def __init__(  # noqa: PLR0913 # how it is loaded
        self,
        weights: Weights,
        device: str,
        compute_type: str,
        threads: int,
        workers: int = 1,
        max_batch: int = MAX_BATCH,
        when_idle: Callable[[], None] = lambda: None,
    ) -> None:
        self.model = weights.name
        self.device = device
        self.compute_type = compute_type
        try:
            self._whisper = WhisperModel(
                str(weights.folder),
                device=device,
                compute_type=compute_type,
                cpu_threads=threads,
                num_workers=workers,
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
        # While a batch is generated, the next is encoded.
        self.is_loaded, self.concurrency = True, workers + 2 * max_batch
        self._batcher = Batcher(self._generate, workers, max_batch, when_idle)
        self._encode = lru_cache(maxsize=CACHED_ENCODINGS)(self._encode_uncached)
        self._tokenizer = lru_cache(maxsize=8)(self._new_tokenizer)
        self._suppressed = get_suppressed_tokens(self._tokenizer("en", "transcribe"), [-1])

    def ensure_loaded(self) -> None:
        """Does nothing: the constructor loads."""

    def warm_up(self) -> None:
        """Encodes silence once: the first encode is slower than the rest."""
        self._whisper.encode(np.zeros((self._whisper.model.n_mels, 200), np.float32))

    def detect(self, audio: Audio, abandoned: Callable[[], bool]) -> dict[str, float]:
        """The probability of each language, by code."""
        return self._batcher.run(self._detection(audio), abandoned, is_urgent=True)

    def decode(
        self, audio: Audio, language: str, options: DecodeOptions, abandoned: Callable[[], bool]
    ) -> list[Phrase]:
        """Phrases in time order."""
        window = self._window(audio, language, options)
        return self._batcher.run(window, abandoned, is_urgent=options.is_urgent)

    def decode_once(self, windows: Sequence[Audio], language: str, beam_size: int) -> list[str]:
        """The text of each window after one pass of all together.

        Without fallbacks, it is the same work with every backend.
        """
        tokenizer = self._tokenizer(language, "transcribe")
        prompt = self._whisper.get_prompt(tokenizer, [])
        generations = [
            _Generation(self._encode_short(audio), prompt, beam_size, 0, self._whisper.max_length)
            for audio in windows
        ]
        results = self._generate(generations)
        return [tokenizer.decode(result.sequences_ids[0]) for result in results]

    def close(self) -> None:
        """Ends the threads; memory goes with the last reference."""
        self._batcher.close()

    # The methods below run on the batcher's threads.

    def _detection(self, audio: Audio) -> Steps[dict[str, float]]:
        features = self._features(audio)
        encoded = yield self._encoding(features, short_length(features.shape[1]))
        (found,) = yield Alone(lambda: self._whisper.model.detect_language(encoded))
        return {token.strip("<|>"): float(probability) for token, probability in found}

    def _window(self, audio: Audio, language: str, options: DecodeOptions) -> Steps[list[Phrase]]:
        features = self._features(audio)
        tokenizer = self._tokenizer(language, options.task)
        found: list[Phrase] = []
        begin = 0
        for _ in range(MAX_PASSES):
            offset = begin / FRAMES_PER_SECOND
            decoded, encoded = yield from self._decode_with_fallbacks(
                features[:, begin:], tokenizer, _from(offset, options)
            )
            if options.word_timestamps or decoded.spans_any(
                joint - offset for joint in options.joints
            ):
                yield Alone(partial(decoded.add_words, self._whisper, encoded))
            found += decoded.phrases(offset)
            begin += decoded.frames_decoded
            if decoded.is_complete:
                break
        return found

    def _decode_with_fallbacks(
        self, features: Features, tokenizer: Tokenizer, options: DecodeOptions
    ) -> Steps[tuple[DecodeResult, Any]]:
        """Tries strategies in order until a result is acceptable; else takes the best.

        A word that follows itself must be heard so in two ways to be accepted.
        Returns the result and the encoding it comes from. The window keeps its encodings to the
        end: between two strategies, other windows push them out of the cache.
        """
        tried: list[tuple[DecodeResult, Any]] = []
        doubled: frozenset[str] = frozenset()
        encodings: dict[int, Any] = {}
        is_prompted = bool(options.initial_prompt or options.hotwords)
        for strategy in strategies(
            features.shape[1],
            options.beam_size,
            is_prompted=is_prompted,
            greedy_first=options.greedy_first,
            full_length_first=options.full_length_first,
        ):
            if strategy.forbids_repetition and not tried[-1][0].is_repetitive:
                continue
            if strategy.length not in encodings:
                encodings[strategy.length] = yield self._encoding(features, strategy.length)
            encoded = encodings[strategy.length]
            decoded = yield from self._try(strategy, encoded, features.shape[1], tokenizer, options)
            tried.append((decoded, encoded))
            if strategy.accepts(decoded) and decoded.doubled_words <= doubled:
                break
            doubled |= decoded.doubled_words
        return max(tried, key=lambda one: one[0].rank)

    def _try(
        self,
        strategy: Strategy,
        encoded: Any,
        frames: int,
        tokenizer: Tokenizer,
        options: DecodeOptions,
    ) -> Steps[DecodeResult]:
        prompt = self._whisper.get_prompt(
            tokenizer,
            tokenizer.encode(f" {options.initial_prompt}") if options.initial_prompt else [],
            hotwords=options.hotwords or None,
        )
        # The limit depends on the padded length: windows of one batch have the same.
        longest = MIN_TOKENS + TOKENS_PER_SECOND * strategy.length // FRAMES_PER_SECOND
        generation = _Generation(
            encoded,
            prompt,
            strategy.beam_size,
            strategy.no_repeat_ngram_size,
            min(len(prompt) + longest, self._whisper.max_length),
        )
        result = yield Together(generation.key, generation)
        return DecodeResult(result, tokenizer, frames, longest, options.speech)

    def _generate(self, generations: Sequence[_Generation]) -> Sequence[Any]:
        first = generations[0]
        encoded = first.encoded
        if len(generations) > 1:
            rows = np.concatenate([np.asarray(one.encoded) for one in generations])
            encoded = ctranslate2.StorageView.from_array(rows)
        results: Sequence[Any] = self._whisper.model.generate(
            encoded,
            [one.prompt for one in generations],
            beam_size=first.beam_size,
            max_length=first.max_length,
            suppress_tokens=self._suppressed,
            no_repeat_ngram_size=first.no_repeat_ngram_size,
            return_scores=True,
            return_no_speech_prob=True,
        )
        return results

    def _encoding(self, features: Features, length: int) -> Alone:
        """Detect, decode, align and translate share the encoding of a window."""
        return Alone(partial(self._encode, _HashedFeatures(features), length))

    def _encode_short(self, audio: Audio) -> Any:
        features = self._features(audio)
        return self._encode_uncached(_HashedFeatures(features), short_length(features.shape[1]))

    def _encode_uncached(self, features: "_HashedFeatures", length: int) -> Any:
        # On the CPU, where encodings are joined to batches.
        view = ctranslate2.StorageView.from_array(padded(features.array, length)[np.newaxis])
        return self._whisper.model.encode(view, to_cpu=True)

    def _features(self, audio: Audio) -> Features:
        features: Features = self._whisper.feature_extractor(to_floats(audio))[:, :-1]
        return features

    def _new_tokenizer(self, language: str, task: str) -> Tokenizer:
        return Tokenizer(self._whisper.hf_tokenizer, self._multilingual, task, language)

    def _languages(self) -> frozenset[str]:
        has = self._whisper.hf_tokenizer.token_to_id
        return frozenset(code for code in WHISPER if has(f"<|{code}|>") is not None)


class _HashedFeatures:
    """Features as a key: equal if all of their values are."""

    def __init__(self, features: Features) -> None:
        self.array = features
        self._digest = hashlib.blake2b(features.tobytes(), digest_size=16).digest()

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HashedFeatures) and self._digest == other._digest


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
