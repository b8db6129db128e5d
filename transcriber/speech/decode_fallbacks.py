"""Result of decoding a window once, the referee's verdict on it, and other ways to decode."""

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from transcriber.decoder import Phrase, Word
from transcriber.speech.referee import Fault, Span, doubled_words, faults, total, without_loops

Features = npt.NDArray[np.float32]
"""Mel bands by frames."""

FRAMES_PER_SECOND = 100
FRAMES_PER_TICK = 2
"""Resolution of Whisper's timestamps."""

FULL = 30 * FRAMES_PER_SECOND
"""The length Whisper was trained on."""

QUIET_BEHIND = 2 * FRAMES_PER_SECOND
"""Silence appended to a window: without it Whisper repeats the last words."""

LENGTHS = tuple(seconds * FRAMES_PER_SECOND for seconds in (12, 15, 20, 25, 30))
"""What windows are padded to. The full length costs three times as much as half of it; windows of
equal length share a batch."""

SURE = -0.3
"""Mean log probability of a token; above it, another decode is hardly ever better: a greedy one is
as good as a wide beam's, and the trained length as good as a shorter one. In a long recording, a
higher limit takes half as long again for no fewer errors."""

OTHER_BEAM = 5
"""Tried after a greedy decode that failed."""

SHORT_REPEAT = 4
"""No sequence of so many tokens may repeat after a loop."""

MAX_COMPRESSION = 2.4
"""Text that compresses better than this repeats itself: Whisper's own sign of a loop."""

UNHEARD = FRAMES_PER_SECOND
"""If more than this is left of the window when the model stops, the rest is decoded next."""

SCRAP = 4 * FRAMES_PER_SECOND
"""A rest shorter than this cannot be decoded alone; the whole window is decoded again."""

SKIPPED = 2 * FRAMES_PER_SECOND
"""A window ends with speech: if the last timestamp is this much earlier, text is missing."""

CONFIDENCE = 4.76, 8.89
"""Intercept and slope of the logistic function from the mean log probability of a token to the
share of words that are right, fitted to base on speech in thirteen languages, clean and disturbed:
the probability itself is too low for good text and too high for nonsense."""

MIN_CALIBRATED = -5.0
"""Below this log probability the confidence is zero in any case."""

MAX_UNCERTAIN = 0.3
"""The most confidence of text that failed the checks in every way."""

MIN_LOGPROB, MAX_NO_SPEECH = -1.0, 0.6
"""Beyond both limits there is no speech: Whisper's own values."""

HARDLY_SPOKEN = 0.3
"""Seconds of speech; with less, improbable text is a laugh or a cough that the model took for a
word."""

_PREPENDED, _APPENDED = "\"'“¿([{-", "\"'.。,，!！?？:：”)]}、"  # noqa: RUF001 # as all scripts have them
"""Punctuation that belongs to the next word, and to the previous one."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to decode a window."""

    length: int
    """Frames the window is padded to."""
    beam_size: int
    no_repeat_ngram_size: int = 0
    min_logprob: float = -math.inf
    """The next strategy is tried if the result is less probable."""
    must_complete: bool = False
    """The next strategy is tried if the result does not reach the end of the window."""

    @property
    def forbids_repetition(self) -> bool:
        """Whether it only helps against repetition."""
        return self.no_repeat_ngram_size > 0

    def accepts(self, result: "DecodeResult") -> bool:
        """Whether no other strategy need be tried."""
        reaches = result.is_complete or not self.must_complete
        return reaches and result.is_acceptable(self.min_logprob)


def strategies(
    frames: int,
    beam_size: int,
    *,
    is_prompted: bool = False,
    greedy_first: bool = False,
    full_length_first: bool = False,
) -> list[Strategy]:
    """A short window first; then the full length, another beam, and no repetition.

    Before all of them, a greedy decode where that may do: a wide beam finds other words only where
    the model is in doubt. Where the full length comes first, the short one follows if the full one
    stops before the last words, or if the model is in doubt: the more probable of both is right
    more often. With a prompt the short window is left out: the words of the prompt weigh too much
    there.

    Whisper's own fallback samples at a higher temperature. This costs less and is deterministic.
    """
    short = FULL if is_prompted else short_length(frames)
    is_greedy_first = greedy_first and beam_size > 1
    found = [Strategy(short, 1, min_logprob=SURE)] if is_greedy_first else []
    if short == FULL:
        found += [Strategy(FULL, beam_size)]
    elif full_length_first:
        found += [Strategy(FULL, beam_size, min_logprob=SURE, must_complete=True)]
        found += [Strategy(short, beam_size)]
    else:
        found += [Strategy(short, beam_size), Strategy(FULL, beam_size)]
    other_beam = 1 if beam_size > 1 else OTHER_BEAM
    if not (is_greedy_first and short == FULL):  # else it is tried already
        found += [Strategy(FULL, other_beam)]
    return [*found, Strategy(FULL, beam_size, SHORT_REPEAT)]


def short_length(frames: int) -> int:
    """A window with the least silence that Whisper needs, in a length that others have too."""
    return next((length for length in LENGTHS if frames + QUIET_BEHIND <= length), FULL)


def padded(features: Features, frames: int) -> Features:
    """The window with silence behind it."""
    missing = max(0, frames - features.shape[1])
    return np.ascontiguousarray(np.pad(features, ((0, 0), (0, missing)))[:, :frames])


def _doubtful(phrases: Sequence[Phrase]) -> list[Phrase]:
    """The same phrases without loops, of low confidence; one with other text has no word times."""
    return [
        replace(
            phrase,
            text=text,
            confidence=min(phrase.confidence, MAX_UNCERTAIN),
            words=phrase.words if text == phrase.text else (),
            uncertain=True,
        )
        for phrase, text in zip(
            phrases, without_loops([phrase.text for phrase in phrases]), strict=True
        )
    ]


class DecodeResult:
    """Tokens of one decode, cut into phrases at the model's timestamps."""

    def __init__(
        self, result: Any, tokenizer: Any, frames: int, longest: int, speech: Sequence[Span]
    ) -> None:
        self._tokenizer = tokenizer
        self._frames = frames
        self._tokens: list[int] = result.sequences_ids[0]
        self._is_cut_off = len(self._tokens) >= longest - 1
        count = len(self._tokens)
        self._logprob = float(result.scores[0]) * count / (count + 1)
        self._no_speech = float(result.no_speech_prob)
        self._is_hardly_spoken = 0 < total(speech) < HARDLY_SPOKEN
        self._text = tokenizer.decode(self._text_tokens(self._tokens))
        self.doubled_words = doubled_words(self._text)
        self._raw_phrases, self.frames_decoded = self._cut()
        self._faults = self._find_faults(speech)

    @property
    def is_complete(self) -> bool:
        """Whether the window is decoded to its end, or nearly."""
        return self._frames - self.frames_decoded <= UNHEARD

    def is_acceptable(self, min_logprob: float = -math.inf) -> bool:
        """Whether no fallback is needed."""
        unsure = self._logprob < min_logprob or (
            self._logprob < MIN_LOGPROB and self._no_speech <= MAX_NO_SPEECH
        )
        leaves_scrap = not self.is_complete and self._frames - self.frames_decoded < SCRAP
        return not (self.failed or unsure or leaves_scrap or Fault.WORDS_MISSING in self._faults)

    @property
    def is_uncertain(self) -> bool:
        """Whether its text is doubtful, if no other decode is better."""
        return self.failed or self._logprob < MIN_LOGPROB

    @property
    def rank(self) -> tuple[bool, bool, bool, int, float]:
        """Sort key: the result with the greatest rank is the best."""
        is_whole = Fault.WORDS_MISSING not in self._faults
        is_fluent = not self.doubled_words
        return not self.failed, is_whole, is_fluent, self.frames_decoded, self._logprob

    @property
    def failed(self) -> bool:
        """Whether it repeats itself, has too much text, no end timestamp, or met the limit."""
        return (
            self.is_repetitive
            or Fault.TOO_MUCH_TEXT in self._faults
            or self._is_cut_off
            or (bool(self._text.strip()) and not self._last_tick())
        )

    def _find_faults(self, speech: Sequence[Span]) -> frozenset[Fault]:
        """The referee's verdict on the part of the window that is decoded."""
        end = self.frames_decoded / FRAMES_PER_SECOND
        within = [(start, min(stop, end)) for start, stop in speech if start < end]
        spans = [(raw["start"], raw["end"]) for raw in self._raw_phrases]
        return faults(self._text, spans, within or [(0.0, end)])

    @property
    def is_repetitive(self) -> bool:
        """Whether the text repeats itself, as a whole or in one place."""
        data = self._text.encode()
        is_dense = len(data) > MAX_COMPRESSION * len(zlib.compress(data))
        return is_dense or Fault.REPEATS in self._faults

    def spans_any(self, points: Iterable[float]) -> bool:
        """Whether a phrase begins before and ends after one of these times, in seconds."""
        return any(
            raw["start"] < point < raw["end"] for point in points for raw in self._raw_phrases
        )

    def add_words(self, whisper: Any, encoded: Any) -> None:
        """Adds word timestamps."""
        if self._raw_phrases:
            whisper.add_word_timestamps(
                [self._raw_phrases],
                self._tokenizer,
                encoded,
                self._frames,
                _PREPENDED,
                _APPENDED,
                0.0,
            )

    def phrases(self, offset: float) -> list[Phrase]:
        """Phrases, with `offset` seconds added to their times."""
        is_silent = self._no_speech > MAX_NO_SPEECH or self._is_hardly_spoken
        if is_silent and self._logprob < MIN_LOGPROB:
            return []
        phrases = [self._phrase(raw, offset) for raw in self._raw_phrases]
        return _doubtful(phrases) if self.is_uncertain else phrases

    @property
    def confidence(self) -> float:
        """The share of its words that are probably right."""
        intercept, slope = CONFIDENCE
        return 1 / (1 + math.exp(-intercept - slope * max(self._logprob, MIN_CALIBRATED)))

    def _phrase(self, raw: dict[str, Any], offset: float) -> Phrase:
        words = tuple(
            Word(
                offset + word["start"],
                offset + word["end"],
                word["word"],
                float(word["probability"]),
            )
            for word in raw.get("words", ())
        )
        text = self._tokenizer.decode(raw["tokens"])
        return Phrase(offset + raw["start"], offset + raw["end"], text, self.confidence, words)

    def _cut(self) -> tuple[list[dict[str, Any]], int]:
        """Phrases between timestamps, and how many frames they cover."""
        raw_phrases: list[dict[str, Any]] = []
        text: list[int] = []
        start = 0.0
        for token in self._tokens:
            if not self._is_tick(token):
                text += self._text_tokens([token])
                continue
            point = self._seconds(token)
            if text:
                raw_phrases.append({"seek": 0, "start": start, "end": point, "tokens": text})
            text, start = [], point
        if text:  # no end timestamp
            end = self._frames / FRAMES_PER_SECOND
            raw_phrases.append({"seek": 0, "start": start, "end": end, "tokens": text})
        # Two timestamps at the end: the model stopped before the end of the speech.
        broke_off = len(self._tokens) > 2 and all(map(self._is_tick, self._tokens[-2:]))
        covered = self._last_tick() * FRAMES_PER_TICK
        fell_silent = 0 < covered < self._frames - SKIPPED and not text
        return raw_phrases, covered if covered and (broke_off or fell_silent) else self._frames

    def _is_tick(self, token: int) -> bool:
        return bool(token >= self._tokenizer.timestamp_begin)

    def _last_tick(self) -> int:
        """The last timestamp, in ticks; 0 if there is none."""
        ticks = [token for token in self._tokens if self._is_tick(token)]
        return ticks[-1] - int(self._tokenizer.timestamp_begin) if ticks else 0

    def _seconds(self, token: int) -> float:
        ticks = token - int(self._tokenizer.timestamp_begin)
        return min(ticks * FRAMES_PER_TICK, self._frames) / FRAMES_PER_SECOND

    def _text_tokens(self, tokens: list[int]) -> list[int]:
        return [token for token in tokens if token < self._tokenizer.eot]
