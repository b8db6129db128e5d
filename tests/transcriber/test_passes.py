"""Whether a pass of the model is to be believed."""

from types import SimpleNamespace
from typing import Any

import pytest

from transcriber.passes import Pass

BEGIN, END_OF_TEXT = 1000, 900
"""Tokens below END_OF_TEXT are words; from BEGIN on they count fiftieths of a second."""


class Tokens:
    """Stands in for a tokenizer: a word a token."""

    timestamp_begin, eot = BEGIN, END_OF_TEXT

    def decode(self, tokens: list[int]) -> str:
        return " ".join(f"word{token}" for token in tokens)


def at(second: float) -> int:
    return BEGIN + round(second * 50)


def heard(*tokens: int, logprob: float = -0.2, no_speech: float = 0.0) -> Pass:
    """Of a window of 20 seconds."""
    result: Any = SimpleNamespace(
        sequences_ids=[list(tokens)],
        scores=[logprob * (len(tokens) + 1) / len(tokens)],
        no_speech_prob=no_speech,
    )
    return Pass(result, Tokens(), frames=2000, longest=500)


def test_a_pass_to_the_end_is_sound() -> None:
    one = heard(at(0), 1, 2, 3, at(19.5))

    assert one.is_sound
    assert one.frames_heard == 2000


def test_a_pass_that_breaks_off_leaves_the_rest_to_be_asked_about() -> None:
    one = heard(at(0), 1, 2, 3, at(10), at(10))

    assert not one.is_whole
    assert one.frames_heard == 1000


def test_a_pass_that_falls_silent_while_somebody_speaks_leaves_the_rest_to_be_asked_about() -> None:
    one = heard(at(0), 1, 2, 3, at(10))

    assert not one.is_whole
    assert one.frames_heard == 1000


@pytest.mark.parametrize(
    "worse",
    [
        heard(at(0), *[7] * 60, at(19.5)),
        heard(at(0), 1, 2, 3, at(17), at(17)),
        heard(at(0), 1, 2, 3, at(19.5), logprob=-1.5),
    ],
    ids=["it repeats itself", "it leaves a scrap", "it is unsure"],
)
def test_what_is_not_sound_is_believed_only_if_nothing_better_comes(worse: Pass) -> None:
    good = heard(at(0), 1, 2, 3, at(19.5))

    assert not worse.is_sound
    assert max([worse, good], key=lambda one: one.worth) is good


def test_an_unsure_pass_over_something_that_is_no_speech_says_nothing() -> None:
    one = heard(at(0), 1, 2, at(19.5), logprob=-1.5, no_speech=0.9)

    assert one.is_sound
    assert one.phrases(0) == []
