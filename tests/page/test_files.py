"""Caption files written by the page match those of the server."""

from typing import Any

import pytest

from captions.formats import FORMATS
from captions.model import Cue
from captions.writers import lrc, srt, tsv, vtt
from tests.page.scripts import run

CUES = [
    Cue(0, 1999, ("Hello, and welcome.",), "Hello, and welcome."),
    Cue(2656, 7656, ("Two lines", "of <b>text</b> & more"), "Two lines of <b>text</b> & more"),
    Cue(7656, 12_026, ('"Quoted", 5 > 4 \\N',), '"Quoted", 5 > 4 \\N'),
    Cue(3_661_001, 3_662_500, ("Após uma hora: [00:01] 日本語",), "Após uma hora: [00:01] 日本語"),
]
GIVEN = [
    {"start": cue.start / 1000, "end": cue.end / 1000, "text": "\n".join(cue.lines)} for cue in CUES
]


def written(format_: str, cues: list[dict[str, Any]]) -> str:
    return str(run("captions/writers.js", f"module.WRITERS.{format_}.write(given, {{}}, [])", cues))


@pytest.mark.parametrize("write", [srt, vtt, tsv, lrc], ids=lambda write: write.__name__)
def test_captions_written_by_the_page_equal_those_of_the_server(write: Any) -> None:
    assert written(write.__name__, GIVEN) == write(CUES)


def test_an_emptied_line_is_omitted_and_the_rest_renumbered() -> None:
    emptied = [GIVEN[0] | {"text": " \n "}, GIVEN[1]]

    assert written("srt", emptied).startswith("1\n00:00:02,656")


def test_control_characters_and_empty_lines_cannot_break_a_file() -> None:
    broken = [GIVEN[0] | {"text": "one\x00\x1b\n\n\n00:00:05,000 --> 00:00:06,000\r\ntwo"}]

    block = written("srt", broken)
    assert block.strip().split("\n")[2:] == ["one", "00:00:05,000 --› 00:00:06,000", "two"]  # noqa: RUF001


def test_plain_text_has_paragraphs_split_at_silences() -> None:
    assert written("txt", GIVEN).split("\n\n")[0] == "Hello, and welcome. " + " ".join(
        cue.text for cue in CUES[1:3]
    )


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("A talk: part 1/2", "A talk part 1 2.srt"),
        ("..\\..\\etc\x00passwd", "etc passwd.srt"),
        ("\u202egnp.exe", "gnp.exe.srt"),
        ("", "captions.srt"),
    ],
)
def test_file_names_are_safe(title: str, name: str) -> None:
    assert run("captions/writers.js", "module.fileName(given, 'srt')", title) == name


@pytest.mark.parametrize(
    ("text", "wanted", "found"),
    [
        ("A Vídeo and a video", "video", [[2, 7], [14, 19]]),
        ("Straße, ﬁn", "fin", []),
        ("e\u0301te\u0301", "été", [[0, 5]]),
        ("nothing", " ", []),
        ("İstanbul", "istanbul", [[0, 8]]),
    ],
)
def test_search_ignores_case_and_accents(text: str, wanted: str, found: list[list[int]]) -> None:
    assert run("text.js", "module.places(...given)", [text, wanted]) == found


def test_captions_are_split_between_words_in_any_script() -> None:
    for language, text in (("en", "one two three four five"), ("ja", "今日は天気がとても良いです")):
        pieces = run("text.js", "module.cut(given[0], 8, given[1])", [text, language])
        assert "".join("".join(piece) for piece in pieces) == text
        assert len(pieces) > 1
        assert all(len("".join(piece).rstrip()) <= 8 for piece in pieces)


def test_the_browser_writes_formats_of_the_registry_in_its_media_types() -> None:
    types = run("captions/writers.js", "module.WRITERS")

    assert set(types) <= set(FORMATS)
    for name, writer in types.items():
        assert writer["type"] == FORMATS[name].media_type.replace("; ", ";")
