"""yt-dlp's error messages, read from the sources of the installed package."""

import ast
from functools import cache
from pathlib import Path

import yt_dlp

RAISERS = ("ExtractorError", "raise_login_required", "raise_geo_restricted", "raise_no_formats")

COOKIES_HINT = (
    "Use --cookies-from-browser or --cookies for the authentication. See  "
    "https://github.com/yt-dlp/yt-dlp/wiki/FAQ  for how to manually pass cookies"
)


@cache
def error_messages() -> dict[str, str]:
    """Every error message and the function that raises it; X stands for what varies."""
    found: dict[str, str] = {}
    root = Path(yt_dlp.__file__).parent
    for file in root.rglob("*.py"):
        if file.name == "lazy_extractors.py":  # repeats the others
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and node.args and _name(node.func) in RAISERS:
                found[" ".join(_template(node.args[0]).split())] = _name(node.func)
    return found


def _name(function: ast.expr) -> str:
    return str(getattr(function, "id", getattr(function, "attr", "")))


def _template(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_template(each) for each in values)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _template(left) + _template(right)
        case ast.BinOp(left=left, op=ast.Mod()):
            return _template(left)
    return "X"
