"""docs/captions.md lists the limits and formats there are, and their ranges."""

import re

from captions.rules import DURATIONS, LIMITS
from cli.options import FORMATS
from tests.docs.pages import code, page, rows
from ytcaption.v1 import media_pb2


def _section(title: str) -> list[list[str]]:
    return rows(page("docs/captions.md").split(f"## {title}\n")[1].split("\n## ")[0])


def test_every_limit_is_listed_with_its_range() -> None:
    listed = {code(row[0]): row[3] for row in _section("Rules of cues")}

    assert list(listed) == list(LIMITS) == [f.name for f in media_pb2.CueRules.DESCRIPTOR.fields]
    for name, (low, high) in LIMITS.items():
        scale = 1000 if name in DURATIONS else 1
        assert re.findall(r"[\d.]+", listed[name]) == [f"{low / scale:g}", f"{high / scale:g}"]


def test_every_format_is_listed() -> None:
    listed = [(code(row[0]), code(row[1])) for row in _section("Formats")]

    assert listed == [(f"CAPTION_FORMAT_{name.upper()}", f"-f {name}") for name in FORMATS]
    assert [name for name, _ in listed] == media_pb2.CaptionFormat.keys()[1:]
