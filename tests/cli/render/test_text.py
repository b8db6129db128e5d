"""Untrusted text is made safe."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.render.text import MAX_NAME_CHARACTERS, clock, file_stem, for_terminal, size, to_json

HARMFUL = "\x00\x07\x1b\x7f\x9b\u200e\u200f\u2028\u202a\u202e\u2066\u2069\u061c\ud800"


@given(st.text(alphabet=st.characters()))
def test_no_control_character_is_left(text: str) -> None:
    shown = for_terminal(text + HARMFUL)

    assert not set(HARMFUL) & set(shown)
    assert not any(ord(character) < 32 for character in shown)


@pytest.mark.parametrize("text", ["olá, você", "日本語の字幕", "می\u200cکنم", "👩\u200d👩\u200d👧"])
def test_harmless_text_is_unchanged(text: str) -> None:
    assert for_terminal(text) == text


@given(st.text(alphabet=st.characters()))
def test_a_file_name_is_always_usable(text: str) -> None:
    stem = file_stem(text, "job")

    assert stem == Path(stem).name
    assert 0 < len(stem) <= MAX_NAME_CHARACTERS
    assert len(f".{stem}.partial.json.12345678".encode()) <= 255
    assert not stem.startswith((".", "-", " "))
    assert not set(stem) & {*HARMFUL, *'<>:"/\\|?*'}


@pytest.mark.parametrize(
    ("title", "stem"),
    [
        ("A talk: part 1/2", "A talk_ part 1_2"),
        ("...hidden", "hidden"),
        ("..", "job"),
        ("", "job"),
        ("-rf", "rf"),
        ("ends in dots...", "ends in dots"),
        ("字" * 300, "字" * 66),
    ],
)
def test_titles_become_file_names(title: str, stem: str) -> None:
    assert file_stem(title, "job") == stem


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_json_is_lossless_without_control_characters(text: str) -> None:
    line = to_json({"text": text + HARMFUL[:-1]})

    assert json.loads(line)["text"] == text + HARMFUL[:-1]
    assert not set(HARMFUL) & set(line)
    assert "\n" not in line


def test_times_are_written_as_in_caption_files() -> None:
    assert clock(timedelta(hours=27, minutes=1, seconds=2, milliseconds=30)) == "27:01:02.030"
    assert clock(timedelta(seconds=59.9999)) == "00:01:00.000"


def test_sizes_have_a_unit() -> None:
    assert [size(999), size(1_000), size(3_250_000)] == ["999 B", "1.0 kB", "3.2 MB"]
