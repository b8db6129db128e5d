"""Real translation models, with weights written by hand: how they load, and what they are told."""

from pathlib import Path

import pytest

from mesh.errors import UnavailableError
from mesh.reasons import Reason
from tests.transcriber.tiny_translation import (
    ENGLISH,
    FRENCH,
    GERMAN,
    M2M100,
    NLLB,
    OPUS_TO_GERMAN,
    TO_GERMAN,
    Kind,
    patient,
    write_model,
)
from transcriber.ctranslate import CTranslator
from transcriber.naming import read_naming
from transcriber.translating import Translate


@pytest.mark.parametrize("vocabulary", ["sentencepiece", "tokenizer.json"])
@pytest.mark.parametrize(
    ("kind", "languages"), [(NLLB, ""), (M2M100, ""), (OPUS_TO_GERMAN, "en>de")]
)
def test_every_kind_of_model_is_told_its_languages_the_way_it_knows(
    tmp_path: Path, kind: Kind, languages: str, vocabulary: str
) -> None:
    folder = write_model(tmp_path / "model", kind, vocabulary)
    translator = CTranslator(folder, languages, "cpu", "int8", 1)

    assert translator.translate(TO_GERMAN, patient) == [GERMAN]
    if kind.names:
        assert translator.sources == translator.targets == {"en", "de", "fr", "pt"}
        back = Translate((GERMAN, ENGLISH), "de", "fr", 1)
        assert translator.translate(back, patient) == [FRENCH, FRENCH]
    else:
        assert translator.sources == {"en"}
        assert translator.targets == {"de"}


def test_opus_models_with_several_targets_are_asked_by_their_tokens() -> None:
    vocabulary = frozenset({"▁a", ">>deu<<", ">>fra<<", ">>pt_br<<", ">>por<<", ">>cmn_Hans<<"})

    naming = read_naming(vocabulary, "en>de,fr,pt,zh")

    assert naming.asked == {
        "de": (">>deu<<",),
        "fr": (">>fra<<",),
        "pt": (">>por<<",),
        "zh": (">>cmn_Hans<<",),
    }


@pytest.mark.parametrize(
    ("languages", "why"),
    [
        ("", "TRANSCRIBER_TRANSLATION_LANGUAGES"),
        ("en", "TRANSCRIBER_TRANSLATION_LANGUAGES"),
        ("en>klingon", "klingon"),
        ("en>de,fr", "one language only"),
    ],
)
def test_a_model_that_does_not_say_what_it_translates_must_be_told(
    opus: Path, languages: str, why: str
) -> None:
    with pytest.raises(UnavailableError, match=why) as caught:
        CTranslator(opus, languages, "cpu", "int8", 1)

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE


@pytest.mark.parametrize(
    "missing", ["model.bin", "config.json", "shared_vocabulary.json", "sentencepiece.bpe.model"]
)
def test_a_folder_that_lacks_a_file_is_a_typed_error(tmp_path: Path, missing: str) -> None:
    folder = write_model(tmp_path / "model", NLLB)
    (folder / missing).unlink()

    with pytest.raises(UnavailableError) as caught:
        CTranslator(folder, "", "cpu", "int8", 1)

    assert caught.value.reason is Reason.MODEL_UNAVAILABLE
