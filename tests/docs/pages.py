"""Reads the documentation, so that tests can compare it with the code."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVICES = sorted(
    path.parent.name
    for path in ROOT.glob("*/settings.py")
    if path.with_name("__main__.py").exists()
)
"""Every service of the mesh."""


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
    """The text between the first pair of backticks; "" without one."""
    found = re.search(r"`([^`]*)`", cell)
    return found[1] if found else ""


def blocks(text: str, language: str) -> list[str]:
    """The fenced code blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
