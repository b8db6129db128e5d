"""Quality checks of a decode result."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from transcriber.decoder import DecodeOptions
from transcriber.speech.batching import Alone
from transcriber.speech.decode_fallbacks import (
    MAX_UNCERTAIN,
    SURE,
    DecodeResult,
    strategies,
)
from transcriber.speech.whisper import WhisperDecoder

GREEDY_FIRST = DecodeOptions(5, greedy_first=True)
BEGIN, END_OF_TEXT = 1000, 900
"""Tokens below END_OF_TEXT are words; from BEGIN on they count fiftieths of a second."""


class Tokens:
    """A tokenizer with one word per token."""

    timestamp_begin, eot = BEGIN, END_OF_TEXT

    def decode(self, tokens: list[int]) -> str:
        return " ".join(f"word{token}" for token in tokens)


def at(second: float) -> int:
    return BEGIN + round(second * 50)


def decoded(
    *tokens: int,
    logprob: float = -0.2,
    no_speech: float = 0.0,
    speech: Sequence[tuple[float, float]] = ((0.0, 19.8),),
) -> DecodeResult:
    """Of a window of 20 seconds."""
    result: Any = SimpleNamespace(
        sequences_ids=[list(tokens)],
        scores=[logprob * (len(tokens) + 1) / len(tokens)],
        no_speech_prob=no_speech,
    )
    return DecodeResult(result, Tokens(), frames=2000, longest=500, speech=speech)


def test_a_complete_result_is_acceptable() -> None:
    one = decoded(at(0), 1, 2, 3, at(19.5))

    assert one.is_acceptable()
    assert one.frames_decoded == 2000


def test_a_result_that_stops_early_leaves_the_rest_to_decode() -> None:
    one = decoded(at(0), 1, 2, 3, at(10), at(10))

    assert not one.is_complete
    assert one.frames_decoded == 1000


def test_a_result_that_ends_before_the_speech_leaves_the_rest_to_decode() -> None:
    one = decoded(at(0), 1, 2, 3, at(10))

    assert not one.is_complete
    assert one.frames_decoded == 1000


@pytest.mark.parametrize(
    "worse",
    [
        decoded(at(0), *[7] * 60, at(19.5)),
        decoded(at(0), 1, 2, 3, at(17), at(17)),
        decoded(at(0), 1, 2, 3, at(19.5), logprob=-1.5),
    ],
    ids=["it repeats itself", "it leaves a scrap", "it is unsure"],
)
def test_an_unacceptable_result_ranks_below_an_acceptable_one(worse: DecodeResult) -> None:
    good = decoded(at(0), 1, 2, 3, at(19.5))

    assert not worse.is_acceptable()
    assert max([worse, good], key=lambda one: one.rank) is good


def test_a_word_that_follows_itself_ranks_below_a_fluent_result_but_above_missing_words() -> None:
    fluent = decoded(at(0), 1, 2, 3, at(19.5), logprob=-0.3)
    stutters = decoded(at(0), 1, 2, 2, 3, at(19.5), logprob=-0.1)
    lacks_words = decoded(at(0), 1, 2, 3, at(18), logprob=-0.1)

    ranked = sorted([fluent, stutters, lacks_words], key=lambda one: one.rank)

    assert ranked == [lacks_words, stutters, fluent]
    assert stutters.doubled_words == {"word2"}


class ScriptedDecodes(WhisperDecoder):
    """Gives these results, one for each strategy; needs no model."""

    def __init__(self, *results: DecodeResult) -> None:
        self.left = list(results)

    def _encoding(self, *_: Any) -> Alone:
        return Alone(lambda: None)

    def _try(self, *_: Any) -> Any:
        yield Alone(lambda: None)
        return self.left.pop(0)

    def chosen(self, options: DecodeOptions = GREEDY_FIRST) -> DecodeResult:
        steps = self._decode_with_fallbacks(np.zeros((80, 2000), np.float32), Tokens(), options)
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                found: DecodeResult = ended.value[0]
                return found


def test_a_word_that_follows_itself_in_one_way_only_is_not_taken() -> None:
    stutters = decoded(at(0), 1, 2, 2, 3, at(19.5), logprob=-0.1)
    fluent = decoded(at(0), 1, 2, 3, at(19.5), logprob=-0.3)
    decodes = ScriptedDecodes(stutters, fluent, stutters)

    assert decodes.chosen() is fluent
    assert len(decodes.left) == 1


def test_a_word_that_follows_itself_in_two_ways_was_said() -> None:
    greedy = decoded(at(0), 1, 2, 2, 3, at(19.5), logprob=-0.1)
    wide = decoded(at(0), 4, 2, 2, 3, at(19.5), logprob=-0.05)
    decodes = ScriptedDecodes(greedy, wide, decoded(at(0), 1, 2, 3, at(19.5)))

    assert decodes.chosen() is wide
    assert len(decodes.left) == 1


def test_a_full_length_that_stops_early_gives_way_to_a_short_window_that_does_not() -> None:
    stops, goes_on = decoded(at(0), 1, at(10), at(10)), decoded(at(0), 1, 2, at(19.5), logprob=-0.3)
    options = DecodeOptions(5, full_length_first=True)

    assert ScriptedDecodes(stops, goes_on).chosen(options) is goes_on
    assert ScriptedDecodes(stops, stops).chosen(options) is stops
    assert ScriptedDecodes(goes_on).chosen(options) is goes_on


def test_where_the_full_length_is_in_doubt_the_more_probable_of_both_lengths_is_taken() -> None:
    doubtful = decoded(at(0), 1, 2, at(19.5), logprob=SURE - 0.2)
    better = decoded(at(0), 1, 3, at(19.5), logprob=SURE - 0.1)
    worse = decoded(at(0), 1, 3, at(19.5), logprob=SURE - 0.3)
    options = DecodeOptions(5, full_length_first=True)

    assert ScriptedDecodes(doubtful, better).chosen(options) is better
    assert ScriptedDecodes(doubtful, worse).chosen(options) is doubtful


@pytest.mark.parametrize(
    ("full_length_first", "logprob"), [(True, SURE + 0.01), (False, SURE - 0.5)]
)
def test_one_length_is_enough_if_the_model_is_sure_or_the_recording_long(
    full_length_first: bool, logprob: float
) -> None:
    one = decoded(at(0), 1, 2, at(19.5), logprob=logprob)
    options = DecodeOptions(5, full_length_first=full_length_first)

    assert ScriptedDecodes(one).chosen(options) is one


@pytest.mark.parametrize("frames", [500, 2500, 2900])
@pytest.mark.parametrize("greedy_first", [True, False])
@pytest.mark.parametrize("full_length_first", [True, False])
@pytest.mark.parametrize("beam_size", [1, 5])
def test_no_window_is_decoded_twice_in_the_same_way(
    frames: int, beam_size: int, greedy_first: bool, full_length_first: bool
) -> None:
    found = strategies(
        frames, beam_size, greedy_first=greedy_first, full_length_first=full_length_first
    )
    ways = [(one.length, one.beam_size, one.no_repeat_ngram_size) for one in found]

    assert len(set(ways)) == len(ways)


def test_an_uncertain_result_without_speech_has_no_phrases() -> None:
    one = decoded(at(0), 1, 2, at(19.5), logprob=-1.5, no_speech=0.9)

    assert one.is_acceptable()
    assert one.phrases(0) == []


def test_an_improbable_text_of_hardly_any_speech_is_a_laugh_and_has_no_phrases() -> None:
    laugh = [(0.4, 0.53), (0.62, 0.69)]

    assert decoded(at(0), 1, at(1), logprob=-1.5, speech=laugh).phrases(0) == []
    assert decoded(at(0), 1, at(1), logprob=-0.9, speech=laugh).phrases(0)
    assert decoded(at(0), 1, at(1), logprob=-1.5, speech=[(0.4, 0.8)]).phrases(0)


def test_text_that_fails_is_uncertain_and_shows_no_loop() -> None:
    one = decoded(at(0), 1, 2, 3, at(5), at(5), *[7] * 60, at(19.5))

    phrases = one.phrases(0)

    assert [phrase.text for phrase in phrases] == ["word1 word2 word3", "word7 word7"]
    assert all(phrase.uncertain and phrase.confidence <= MAX_UNCERTAIN for phrase in phrases)


@pytest.mark.parametrize(
    "one",
    [decoded(at(0), *range(100, 240), at(19.5)), decoded(at(0), 1, 2, 3, at(18))],
    ids=["more text than the speech has time for", "words missing at the end"],
)
def test_text_that_does_not_fit_the_speech_is_not_acceptable(one: DecodeResult) -> None:
    assert not one.is_acceptable()


def test_the_ways_to_decode_end_with_one_that_forbids_repetition() -> None:
    plain = strategies(500, 5)
    prompted = strategies(500, 5, is_prompted=True)

    assert [way.length for way in plain] == [1200, 3000, 3000, 3000]
    assert [way.beam_size for way in plain] == [5, 5, 1, 5]
    assert [way.forbids_repetition for way in plain] == [False, False, False, True]
    assert [way.length for way in prompted] == [3000, 3000, 3000]


def test_the_full_length_comes_first_where_that_is_asked_and_the_short_window_follows() -> None:
    ways = strategies(500, 5, full_length_first=True)
    long = strategies(2900, 5, full_length_first=True)

    assert [(way.length, way.beam_size) for way in ways[:3]] == [(3000, 5), (1200, 5), (3000, 1)]
    assert [way.length for way in long] == [3000, 3000, 3000]


def test_a_greedy_decode_comes_first_only_where_it_is_allowed_and_must_be_sure() -> None:
    first, *others = strategies(500, 5, greedy_first=True)

    assert (first.beam_size, first.length, first.min_logprob) == (1, 1200, SURE)
    assert len(others) == len(strategies(500, 5))
    doubtful = decoded(at(0), 1, 2, 3, at(19.5), logprob=SURE - 0.01)
    assert not doubtful.is_acceptable(first.min_logprob)
    assert doubtful.is_acceptable(others[0].min_logprob)


def test_the_confidence_grows_with_the_probability_and_stays_between_zero_and_one() -> None:
    grades = [-1000.0, -1.5, -0.6, -0.4, -0.2, -0.05, 0.0]
    found = [decoded(at(0), 1, 2, at(19.5), logprob=grade).confidence for grade in grades]

    assert found == sorted(found)
    assert 0 <= found[0] < 0.01
    assert 0.9 < found[4] < found[-1] <= 1
