"""Untrusted objects become one short line of text."""

from typing import Any

import pytest

from tests.page.scripts import run


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"itens": 2, "arquivo": "um.md"}, "itens: 2 · arquivo: um.md"),
        ({"deep": {"a": [1, None]}, "nothing": None}, 'deep: {"a":[1,null]} · nothing: null'),
        ({"html": "<b>a\n\nb</b>", "turned": "\u202ex\x00"}, "html: <b>a b</b> · turned: x␀"),
        ({}, ""),
        (None, ""),
    ],
)
def test_an_object_is_shown_on_one_line_as_text(given: Any, shown: str) -> None:
    assert run("text.js", "module.brief(given)", given) == shown


def test_a_long_object_is_cut_between_characters() -> None:
    shown = run("text.js", "module.brief(given)", {"a": "😀" * 5000})

    assert shown == f"a: {'😀' * 297}…"
