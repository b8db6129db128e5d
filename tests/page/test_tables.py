"""Every sentence is there in both languages, and none is there for nothing."""

import re

import pytest

from mesh.reasons import Reason
from tests.page.scripts import STATIC, run

LANGUAGES = ("en", "pt-BR")


@pytest.fixture(scope="module")
def tables() -> dict[str, dict[str, str]]:
    return {tag: run(f"i18n/{tag}.js", "module.default") for tag in LANGUAGES}


def test_both_tables_have_the_same_sentences_with_the_same_places(
    tables: dict[str, dict[str, str]],
) -> None:
    english, portuguese = (tables[tag] for tag in LANGUAGES)

    assert list(english) == list(portuguese)
    assert all(portuguese.values())
    assert {key: places(words) for key, words in english.items()} == {
        key: places(words) for key, words in portuguese.items()
    }


def places(words: str) -> list[str]:
    return sorted(re.findall(r"\{(\w+)\}", words))


@pytest.mark.parametrize("tag", LANGUAGES)
def test_every_reason_has_words_for_what_happened_and_what_to_do(tag: str) -> None:
    words = run(f"i18n/reasons.{tag}.js", "module.default")

    assert set(words) == set(Reason)
    assert all(happened and advice for happened, advice in words.values())


def test_the_page_says_every_sentence_it_has_and_has_every_one_it_says(
    tables: dict[str, dict[str, str]],
) -> None:
    code = "".join(
        path.read_text("utf-8") for path in STATIC.rglob("*.js") if path.parent.name != "i18n"
    )
    families = tuple(re.findall(r"t\(`([\w.]+\.)\$\{", code))
    keys = {re.sub(r"\.(one|other)$", "", key) for key in tables["en"]}

    unsaid = {key for key in keys if f'"{key}"' not in code and not key.startswith(families)}
    assert unsaid == set()
    said = set(re.findall(r'\b(?:t|counted)\("([\w.]+)"', code))
    assert said - keys == set()
