"""Text in another language, by real translation models whose weights were written by hand."""

from pathlib import Path

import numpy as np
import pytest

from mesh.errors import UnsupportedError
from mesh.reasons import Reason
from tests.transcriber.support import ScriptedDecoder, Speaking, engine_with, events_of
from transcriber.ctranslate import CTranslator
from transcriber.decoder import Phrase
from transcriber.engine import Heard, Ready, Request, Spoken, TranslationFacts
from transcriber.vad import Audio

TALK = np.full(5 * 16_000, 16_384, "<i2").tobytes()


class Talker(ScriptedDecoder):
    """Hears the same sentence in every window, in the language it is told."""

    def __init__(self, languages: frozenset[str] = frozenset({"en", "de", "fr", "pt"})) -> None:
        super().__init__(languages)
        self.spoken = "en"

    def detect(self, audio: Audio, abandoned: object) -> tuple[str, float]:
        return self.spoken, 0.9

    def decode(self, audio: Audio, language: str, how: object, abandoned: object) -> list[Phrase]:
        if getattr(how, "task") == "translate":  # noqa: B009 # of any decoder
            return [Phrase(0, 2, "by the speech model", 0.5)]
        return [Phrase(0, 1, " The weather", 0.5), Phrase(1, 2, " is lovely", 0.5)]


@pytest.fixture
def translator(nllb: Path) -> CTranslator:
    return CTranslator(nllb, "", "cpu", "int8", 1)


async def test_each_segment_keeps_its_text_and_gets_its_translation(
    translator: CTranslator,
) -> None:
    engine = await engine_with(Talker(), translator, new_detector=Speaking)

    events = await events_of(engine, TALK, Request(language="en", language_out="de-AT"))

    spoken = [event for event in events if isinstance(event, Spoken)]
    assert [one.text for one in spoken] == ["The weather", "is lovely"]
    assert [one.translation for one in spoken] == ["Das Wetter", "ist herrlich"]
    assert events[0] == Ready("scripted", "cpu", "int8", "tiny-nllb")
    assert isinstance(events[-1], Heard)
    assert (events[-1].language, events[-1].language_out) == ("en", "de")


async def test_speech_in_the_wanted_language_is_not_translated_and_nothing_says_so(
    translator: CTranslator,
) -> None:
    engine = await engine_with(Talker(), translator, new_detector=Speaking)

    events = await events_of(engine, TALK, Request(language="de", language_out="de"))

    assert not any(event.translation for event in events if isinstance(event, Spoken))
    assert isinstance(events[-1], Heard)
    assert events[-1].language_out == ""


async def test_a_target_no_model_knows_is_refused_with_those_that_are_known(
    translator: CTranslator,
) -> None:
    engine = await engine_with(Talker(), translator)

    with pytest.raises(UnsupportedError, match="only into de, en, fr, pt") as caught:
        await events_of(engine, TALK, Request(language_out="ja"))

    assert caught.value.reason is Reason.TRANSLATION_UNSUPPORTED


@pytest.mark.parametrize("named", [True, False])
async def test_a_language_the_model_cannot_read_is_refused_when_it_is_known(
    opus: Path, named: bool
) -> None:
    decoder = Talker()
    decoder.spoken = "pt"
    translator = CTranslator(opus, "en>de", "cpu", "int8", 1)
    engine = await engine_with(decoder, translator, new_detector=Speaking)
    request = Request(language="pt" if named else "", language_out="de")

    with pytest.raises(UnsupportedError, match="'pt' cannot be translated into 'de'") as caught:
        await events_of(engine, TALK, request)

    assert caught.value.reason is Reason.TRANSLATION_UNSUPPORTED


async def test_of_mixed_languages_what_cannot_be_read_stays_as_it_was_said(opus: Path) -> None:
    decoder = Talker()
    decoder.spoken = "pt"
    translator = CTranslator(opus, "en>de", "cpu", "int8", 1)
    engine = await engine_with(decoder, translator, new_detector=Speaking)

    events = await events_of(engine, TALK, Request(language_out="de", mixed_languages=True))

    assert [one.translation for one in events if isinstance(one, Spoken)] == ["", ""]
    assert isinstance(events[-1], Heard)
    assert events[-1].language_out == ""


@pytest.mark.parametrize(
    ("model", "expected", "by"),
    [
        (None, "by the speech model", ""),
        ("opus", "by the speech model", ""),
        ("nllb", "The weather", "tiny-nllb"),
    ],
)
async def test_english_comes_from_the_translation_model_if_it_writes_english(
    nllb: Path, opus: Path, model: str | None, expected: str, by: str
) -> None:
    folder = {"opus": opus, "nllb": nllb}.get(model or "")
    translator = CTranslator(folder, "en>de", "cpu", "int8", 1) if folder else None
    engine = await engine_with(Talker(), translator, new_detector=Speaking)

    events = await events_of(engine, TALK, Request(language="pt", language_out="en"))

    spoken = [event for event in events if isinstance(event, Spoken)]
    assert spoken[0].translation == expected
    assert isinstance(events[0], Ready)
    assert events[0].translation_model == by
    assert isinstance(events[-1], Heard)
    assert events[-1].language_out == "en"


async def test_what_can_be_translated_is_told_the_preferred_way_first(opus: Path) -> None:
    translator = CTranslator(opus, "en>de", "cpu", "int8", 1)
    engine = await engine_with(Talker(frozenset({"en", "pt"})), translator)

    assert list(engine.translations()) == [
        TranslationFacts("tiny-opus", ("en",), ("de",)),
        TranslationFacts("scripted", ("en", "pt"), ("en",)),
    ]
