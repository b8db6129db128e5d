"""Real translation models with hand-written weights: loading and language tokens."""

from pathlib import Path

import pytest

from mesh.errors import UnavailableError
from mesh.reasons import Reason
from tests.support.tiny_translation import (
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
from transcriber.translation.ctranslate import CTranslator
from transcriber.translation.language_tokens import read_language_tokens
from transcriber.translation.translator import Translate


@pytest.mark.parametrize("vocabulary", ["sentencepiece", "tokenizer.json"])
@pytest.mark.parametrize(
    ("kind", "languages"), [(NLLB, ""), (M2M100, ""), (OPUS_TO_GERMAN, "en>de")]
)
def test_every_model_family_gets_its_own_language_tokens(
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


def test_opus_models_with_several_targets_get_target_tokens() -> None:
    vocabulary = frozenset({"▁a", ">>deu<<", ">>fra<<", ">>pt_br<<", ">>por<<", ">>cmn_Hans<<"})

    tokens = read_language_tokens(vocabulary, "en>de,fr,pt,zh")

    assert tokens.target_tokens == {
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
def test_a_model_without_language_tokens_needs_the_languages_setting(
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
