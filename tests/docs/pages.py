"""Reads what our own documentation says, so that tests can hold it to the code."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def page(path: str) -> str:
    """The text of a page."""
    return (ROOT / path).read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """The cells of every table row, header and ruler left out."""
    found: list[list[str]] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        follows = lines[number + 1] if number + 1 < len(lines) else ""
        if line.startswith("|") and not _is_ruler(line) and not _is_ruler(follows):
            found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def _is_ruler(line: str) -> bool:
    return re.fullmatch(r"\|(?::?-+:?\|)+", line) is not None


def code(cell: str) -> str:
    """What stands between the first pair of backticks; "" if there is none."""
    found = re.search(r"`([^`]*)`", cell)
    return found[1] if found else ""


def blocks(text: str, language: str) -> list[str]:
    """The fenced code blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
