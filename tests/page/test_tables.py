"""Translation tables: complete in both languages, and without unused keys."""

import re

import pytest

from mesh.reasons import Reason, WarningReason
from tests.page.scripts import STATIC, run

LANGUAGES = ("en", "pt-BR")


@pytest.fixture(scope="module")
def tables() -> dict[str, dict[str, str]]:
    return {tag: run(f"i18n/{tag}.js", "module.default") for tag in LANGUAGES}


def test_both_tables_have_the_same_keys_and_placeholders(
    tables: dict[str, dict[str, str]],
) -> None:
    english, portuguese = (tables[tag] for tag in LANGUAGES)

    assert list(english) == list(portuguese)
    assert all(portuguese.values())
    assert {key: placeholders(words) for key, words in english.items()} == {
        key: placeholders(words) for key, words in portuguese.items()
    }


def placeholders(words: str) -> list[str]:
    return sorted(re.findall(r"\{(\w+)\}", words))


@pytest.mark.parametrize("tag", LANGUAGES)
def test_every_reason_has_a_message_and_an_advice(tag: str) -> None:
    words = run(f"i18n/reasons.{tag}.js", "module.default")

    assert set(words) == set(Reason)
    assert all(happened and advice for happened, advice in words.values())


def test_every_warning_has_a_sentence(tables: dict[str, dict[str, str]]) -> None:
    for words in tables.values():
        said = {key.removeprefix("warning.") for key in words if key.startswith("warning.")}
        assert said == set(WarningReason)


def test_every_key_is_used_and_every_used_key_exists(
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


def test_a_missing_sentence_is_replaced_by_its_fallback() -> None:
    said = run("i18n.js", 'module.t("files.unknown", { name: "x" }, "Fallback for {name}")')

    assert said == "Fallback for x"
