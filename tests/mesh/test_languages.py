"""One table of languages for every service."""

import pytest
from faster_whisper.tokenizer import _LANGUAGE_CODES

from mesh.errors import InvalidRequestError
from mesh.languages import WHISPER, described, name_of, primary, tag_of
from mesh.reasons import Reason


def test_the_table_is_whispers_own() -> None:
    assert frozenset(_LANGUAGE_CODES) == WHISPER


@pytest.mark.parametrize(
    ("tag", "code"),
    [
        ("pt", "pt"),
        ("pt-BR", "pt"),
        ("PT_br", "pt"),
        (" zh-Hant-TW ", "zh"),
        ("cmn", "zh"),
        ("nb-NO", "no"),
        ("ji", "yi"),
        ("jv", "jw"),
    ],
)
def test_a_tag_may_be_spelt_in_many_ways(tag: str, code: str) -> None:
    assert primary(tag) == code


@pytest.mark.parametrize("tag", ["", "xx", "english", "pt-BR!", "pt BR", "p", "1"])
def test_an_unknown_language_is_refused(tag: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        primary(tag)
    assert caught.value.reason is Reason.LANGUAGE_UNKNOWN


def test_every_code_has_a_tag_that_leads_back_to_it() -> None:
    assert {primary(tag_of(code)) for code in WHISPER} == WHISPER
    assert tag_of("jw") == "jv"


@pytest.mark.parametrize(
    ("tag", "name"),
    [("pt-BR", "Portuguese"), ("jv", "Javanese"), ("ht", "Haitian Creole"), ("xx", "xx")],
)
def test_a_tag_has_an_english_name_if_it_is_known(tag: str, name: str) -> None:
    assert name_of(tag) == name


def test_no_two_languages_have_one_name() -> None:
    names = {name_of(code) for code in WHISPER}

    assert len(names) == len(WHISPER)
    assert all(name == name.strip() and name[0].isupper() for name in names)


def test_every_transcribable_language_has_a_name() -> None:
    assert all(described(tag) == f"{name_of(tag)} ({tag})" for tag in map(tag_of, WHISPER))
    assert described("pt-BR") == "Portuguese (pt-BR)"
    assert described("tlh") == "tlh"
    assert described("") == ""
