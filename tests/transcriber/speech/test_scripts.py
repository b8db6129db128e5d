"""Chinese text is in one script: that of the language tag."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.support.speech import AlwaysSpeech, ScriptedDecoder, engine_with, events_of
from transcriber.decoder import Audio, DecodeOptions, Phrase, Word
from transcriber.engine import Request, Segment

TALK = np.full(5 * 16_000, 16_384, "<i2").tobytes()
SIMPLIFIED, TRADITIONAL = "广州市房地产 中介协会", "廣州市房地產 中介協會"


class MixedScripts(ScriptedDecoder):
    """Says the same in both scripts, one after the other."""

    def __init__(self) -> None:
        super().__init__(frozenset({"zh", "ja"}))

    def detect(self, audio: Audio, abandoned: Callable[[], bool]) -> dict[str, float]:
        return {"zh": 0.9}

    def decode(
        self, audio: Audio, language: str, options: DecodeOptions, abandoned: Callable[[], bool]
    ) -> list[Phrase]:
        return [
            Phrase(at, at + 1, text, 0.5, (Word(at, at + 0.5, text, 0.5),))
            for at, text in enumerate([SIMPLIFIED, TRADITIONAL])
        ]


@pytest.mark.parametrize(
    ("language", "candidates", "expected"),
    [
        ("", (), SIMPLIFIED),
        ("zh", (), SIMPLIFIED),
        ("zh-Hans-TW", (), SIMPLIFIED),
        ("cmn-Hant", (), TRADITIONAL),
        ("zh_TW", (), TRADITIONAL),
        ("", ("ja-JP", "zh-HK"), TRADITIONAL),
    ],
)
async def test_chinese_text_and_words_are_in_the_script_of_the_tag(
    language: str, candidates: tuple[str, ...], expected: str
) -> None:
    engine = await engine_with(MixedScripts(), new_detector=AlwaysSpeech)

    request = Request(language, word_timestamps=True, languages=candidates)
    events = await events_of(engine, TALK, request)

    segments = [event for event in events if isinstance(event, Segment)]
    assert [one.text for one in segments] == [expected, expected]
    assert [word.text for one in segments for word in one.words] == [expected, expected]


async def test_the_same_characters_stay_as_they_are_in_other_languages() -> None:
    engine = await engine_with(MixedScripts(), new_detector=AlwaysSpeech)

    events = await events_of(engine, TALK, Request(language="ja"))

    texts = [event.text for event in events if isinstance(event, Segment)]
    assert texts == [SIMPLIFIED, TRADITIONAL]
