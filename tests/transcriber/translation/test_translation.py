"""Translation of segments by real models with hand-written weights."""

from pathlib import Path

import numpy as np
import pytest

from mesh.errors import UnsupportedError
from mesh.reasons import Reason
from tests.support.speech import AlwaysSpeech, ScriptedDecoder, engine_with, events_of
from transcriber.decoder import Audio, Phrase
from transcriber.engine import Finished, Request, Segment, Started, TranslationInfo
from transcriber.translation.ctranslate import CTranslator

TALK = np.full(5 * 16_000, 16_384, "<i2").tobytes()


class FixedSentenceDecoder(ScriptedDecoder):
    """Returns the same sentence for every window, in a given language."""

    def __init__(self, languages: frozenset[str] = frozenset({"en", "de", "fr", "pt"})) -> None:
        super().__init__(languages)
        self.spoken = "en"

    def detect(self, audio: Audio, abandoned: object) -> dict[str, float]:
        return {self.spoken: 0.9}

    def decode(
        self, audio: Audio, language: str, options: object, abandoned: object
    ) -> list[Phrase]:
        if getattr(options, "task") == "translate":  # noqa: B009 # of any decoder
            return [Phrase(0, 2, "by the speech model", 0.5)]
        return [Phrase(0, 1, " The weather", 0.5), Phrase(1, 2, " is lovely", 0.5)]


@pytest.fixture
def translator(nllb: Path) -> CTranslator:
    return CTranslator(nllb, "", "cpu", "int8", 1)


async def test_each_segment_keeps_its_text_and_gets_its_translation(
    translator: CTranslator,
) -> None:
    engine = await engine_with(FixedSentenceDecoder(), translator, new_detector=AlwaysSpeech)

    events = await events_of(engine, TALK, Request(language="en", language_out="de-AT"))

    spoken = [event for event in events if isinstance(event, Segment)]
    assert [one.text for one in spoken] == ["The weather", "is lovely"]
    assert [one.translation for one in spoken] == ["Das Wetter", "ist herrlich"]
    assert events[0] == Started("scripted", "cpu", "int8", "tiny-nllb")
    assert isinstance(events[-1], Finished)
    assert (events[-1].language, events[-1].language_out) == ("en", "de")


async def test_speech_in_the_target_language_is_not_translated_and_language_out_stays_empty(
    translator: CTranslator,
) -> None:
    engine = await engine_with(FixedSentenceDecoder(), translator, new_detector=AlwaysSpeech)

    events = await events_of(engine, TALK, Request(language="de", language_out="de"))

    assert not any(event.translation for event in events if isinstance(event, Segment))
    assert isinstance(events[-1], Finished)
    assert events[-1].language_out == ""


async def test_an_unsupported_target_is_refused_and_the_error_lists_the_supported_ones(
    translator: CTranslator,
) -> None:
    engine = await engine_with(FixedSentenceDecoder(), translator)

    with pytest.raises(UnsupportedError, match="only into de, en, fr, pt") as caught:
        await events_of(engine, TALK, Request(language_out="ja"))

    assert caught.value.reason is Reason.TRANSLATION_UNSUPPORTED


@pytest.mark.parametrize("named", [True, False])
async def test_an_unsupported_source_language_is_refused_once_it_is_known(
    opus: Path, named: bool
) -> None:
    decoder = FixedSentenceDecoder()
    decoder.spoken = "pt"
    translator = CTranslator(opus, "en>de", "cpu", "int8", 1)
    engine = await engine_with(decoder, translator, new_detector=AlwaysSpeech)
    request = Request(language="pt" if named else "", language_out="de")

    with pytest.raises(UnsupportedError, match="'pt' cannot be translated into 'de'") as caught:
        await events_of(engine, TALK, request)

    assert caught.value.reason is Reason.TRANSLATION_UNSUPPORTED


async def test_in_mixed_languages_untranslatable_speech_stays_untranslated(opus: Path) -> None:
    decoder = FixedSentenceDecoder()
    decoder.spoken = "pt"
    translator = CTranslator(opus, "en>de", "cpu", "int8", 1)
    engine = await engine_with(decoder, translator, new_detector=AlwaysSpeech)

    events = await events_of(engine, TALK, Request(language_out="de", mixed_languages=True))

    assert [one.translation for one in events if isinstance(one, Segment)] == ["", ""]
    assert isinstance(events[-1], Finished)
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
    engine = await engine_with(FixedSentenceDecoder(), translator, new_detector=AlwaysSpeech)

    events = await events_of(engine, TALK, Request(language="pt", language_out="en"))

    spoken = [event for event in events if isinstance(event, Segment)]
    assert spoken[0].translation == expected
    assert isinstance(events[0], Started)
    assert events[0].translation_model == by
    assert isinstance(events[-1], Finished)
    assert events[-1].language_out == "en"


async def test_translations_are_listed_with_the_preferred_model_first(opus: Path) -> None:
    translator = CTranslator(opus, "en>de", "cpu", "int8", 1)
    engine = await engine_with(FixedSentenceDecoder(frozenset({"en", "pt"})), translator)

    assert list(engine.translations()) == [
        TranslationInfo("tiny-opus", ("en",), ("de",)),
        TranslationInfo("scripted", ("en", "pt"), ("en",)),
    ]
