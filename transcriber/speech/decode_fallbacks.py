"""What one pass of the model over a window said, whether to believe it, and what else to try."""

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from transcriber.decoder import Phrase, Word

Features = npt.NDArray[np.float32]
"""Mel bands by frames."""

FRAMES_A_SECOND = 100
FRAMES_A_TICK = 2
"""Whisper's timestamps count in these."""

FULL = 30 * FRAMES_A_SECOND
"""The length Whisper was trained on."""

QUIET_BEHIND, SHORTEST = 2 * FRAMES_A_SECOND, 12 * FRAMES_A_SECOND
"""How much quiet is put behind a window, and how long it is made at least. Without any, Whisper
says the last words over and over; but the full length costs four times what half of it does."""

SHORT_REPEAT = 4
"""So many tokens may not come twice where it looped."""

MAX_COMPRESSION = 2.4
"""Text that compresses better than this repeats itself: Whisper's own sign of a loop."""

UNHEARD = FRAMES_A_SECOND
"""If the model broke off with more than this left of the window, it is asked about the rest."""

SCRAP = 4 * FRAMES_A_SECOND
"""Of a rest shorter than this no model makes sense; better to hear the whole again."""

SKIPPED = 2 * FRAMES_A_SECOND
"""A window ends with speech: if the last timestamp is this long before, something was left out."""

MIN_LOGPROB, MAX_NO_SPEECH = -1.0, 0.6
"""Beyond both of these nobody spoke: Whisper's own limits."""

_PREPENDED, _APPENDED = "\"'“¿([{-", "\"'.。,，!！?？:：”)]}、"  # noqa: RUF001 # as all scripts have them
"""Punctuation that belongs to the next word, and to the one before."""


@dataclass(frozen=True, slots=True)
class Way:
    """How to make a pass."""

    features: Features
    no_repeat_ngram_size: int = 0

    @property
    def is_cure_for_loops(self) -> bool:
        """Whether a few words may not come twice; no cure for anything else."""
        return self.no_repeat_ngram_size > 0


def ways(features: Features, *, is_prompted: bool) -> list[Way]:
    """The cheap way first; then as Whisper was trained; then with repetition forbidden.

    With a prompt the cheap way mishears: the words of the prompt weigh too much there.

    Whisper's usual way out of a loop is to roll dice at a higher temperature. This costs less, and
    gives the same text every time.
    """
    short = min(max(features.shape[1] + QUIET_BEHIND, SHORTEST), FULL)
    full = _padded(features, FULL)
    cheap = [] if is_prompted or short == FULL else [Way(_padded(features, short))]
    return [*cheap, Way(full), Way(full, SHORT_REPEAT)]


def _padded(features: Features, frames: int) -> Features:
    frames += frames % FRAMES_A_TICK
    missing = max(0, frames - features.shape[1])
    return np.ascontiguousarray(np.pad(features, ((0, 0), (0, missing)))[:, :frames])


class Pass:
    """The tokens of one pass, cut into phrases at the model's own timestamps."""

    def __init__(self, result: Any, tokenizer: Any, frames: int, longest: int) -> None:
        self._tokenizer = tokenizer
        self._frames = frames
        self._tokens: list[int] = result.sequences_ids[0]
        self._is_cut_off = len(self._tokens) >= longest - 1
        count = len(self._tokens)
        self._logprob = float(result.scores[0]) * count / (count + 1)
        self._no_speech = float(result.no_speech_prob)
        self._text = tokenizer.decode(self._text_tokens(self._tokens))
        self._pieces, self.frames_heard = self._cut()

    @property
    def is_whole(self) -> bool:
        """Whether hardly anything is left to ask about."""
        return self._frames - self.frames_heard <= UNHEARD

    @property
    def is_sound(self) -> bool:
        """Whether no other way needs to be tried."""
        unsure = self._logprob < MIN_LOGPROB and self._no_speech <= MAX_NO_SPEECH
        leaves_scrap = not self.is_whole and self._frames - self.frames_heard < SCRAP
        return not (self.went_wrong or unsure or leaves_scrap)

    @property
    def worth(self) -> tuple[bool, int, float]:
        """Of several passes, the one for which this is greatest is the one to believe."""
        return not self.went_wrong, self.frames_heard, self._logprob

    @property
    def went_wrong(self) -> bool:
        """Whether it repeats itself, never comes to an end, or ends nowhere."""
        return (
            self.loops or self._is_cut_off or (bool(self._text.strip()) and not self._last_tick())
        )

    @property
    def loops(self) -> bool:
        """Whether it repeats itself."""
        data = self._text.encode()
        return len(data) > MAX_COMPRESSION * len(zlib.compress(data))

    def goes_across(self, moments: Iterable[float]) -> bool:
        """Whether a phrase begins before and ends after one of these, in seconds."""
        return any(
            piece["start"] < moment < piece["end"] for moment in moments for piece in self._pieces
        )

    def add_words(self, whisper: Any, encoded: Any) -> None:
        """Finds where each word was said."""
        if self._pieces:
            whisper.add_word_timestamps(
                [self._pieces], self._tokenizer, encoded, self._frames, _PREPENDED, _APPENDED, 0.0
            )

    def phrases(self, offset: float) -> list[Phrase]:
        """What was said, in seconds from `offset` before the pass."""
        if self._no_speech > MAX_NO_SPEECH and self._logprob < MIN_LOGPROB:
            return []
        return [self._phrase(piece, offset) for piece in self._pieces]

    def _phrase(self, piece: dict[str, Any], offset: float) -> Phrase:
        words = tuple(
            Word(
                offset + word["start"],
                offset + word["end"],
                word["word"],
                float(word["probability"]),
            )
            for word in piece.get("words", ())
        )
        sure = sum(w.confidence for w in words) / len(words) if words else math.exp(self._logprob)
        text = self._tokenizer.decode(piece["tokens"])
        return Phrase(offset + piece["start"], offset + piece["end"], text, sure, words)

    def _cut(self) -> tuple[list[dict[str, Any]], int]:
        """The pieces between timestamps, and how many frames they account for."""
        pieces: list[dict[str, Any]] = []
        text: list[int] = []
        start = 0.0
        for token in self._tokens:
            if not self._is_tick(token):
                text += self._text_tokens([token])
                continue
            moment = self._seconds(token)
            if text:
                pieces.append({"seek": 0, "start": start, "end": moment, "tokens": text})
            text, start = [], moment
        if text:  # it did not say until when
            end = self._frames / FRAMES_A_SECOND
            pieces.append({"seek": 0, "start": start, "end": end, "tokens": text})
        # Two timestamps at the end: there was more, but the model broke off.
        broke_off = len(self._tokens) > 2 and all(map(self._is_tick, self._tokens[-2:]))
        heard = self._last_tick() * FRAMES_A_TICK
        fell_silent = 0 < heard < self._frames - SKIPPED and not text
        return pieces, heard if heard and (broke_off or fell_silent) else self._frames

    def _is_tick(self, token: int) -> bool:
        return bool(token >= self._tokenizer.timestamp_begin)

    def _last_tick(self) -> int:
        """The last timestamp; 0 if there is none but the first."""
        ticks = [token for token in self._tokens if self._is_tick(token)]
        return ticks[-1] - int(self._tokenizer.timestamp_begin) if ticks else 0

    def _seconds(self, token: int) -> float:
        ticks = token - int(self._tokenizer.timestamp_begin)
        return min(ticks * FRAMES_A_TICK, self._frames) / FRAMES_A_SECOND

    def _text_tokens(self, tokens: list[int]) -> list[int]:
        return [token for token in tokens if token < self._tokenizer.eot]
