"""Parses the `curl` commands of a page and runs them with an HTTP client."""

import asyncio
import re
import shlex
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.docs.pages import blocks

PROMPT = "$ "
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class Example:
    """A command and the output that the page shows."""

    command: str
    answer: str


@dataclass(frozen=True, slots=True)
class Printed:
    """The output curl would have printed."""

    head: str
    """The status line and the headers; empty unless requested."""
    body: str
    """Empty if it was saved to a file."""
    saved: str
    """The name of that file."""
    kind: str
    """The media type of the body."""
    status: int


def examples(text: str) -> list[Example]:
    """Every command of the page's console blocks, in order, with variables expanded."""
    found: list[Example] = []
    variables: dict[str, str] = {}
    for block in blocks(text, "console"):
        for part in f"\n{block}".split(f"\n{PROMPT}")[1:]:
            lines = part.splitlines()
            length = next(n for n in range(1, len(lines) + 1) if _is_whole(lines[:n]))
            command = "\n".join(lines[:length])
            if assigned := re.fullmatch(r"([A-Z]+)=(\S+)", command):
                variables[assigned[1]] = assigned[2]
            else:
                answer = "\n".join(lines[length:])
                found.append(Example(_expanded(command, variables), answer))
    return found


def _expanded(command: str, variables: dict[str, str]) -> str:
    """Expands variables as a shell would: not between single quotes."""
    assert not re.search(r"'[^']*\$[^']*'", command), command
    return re.sub(r"\$([A-Z]+)", lambda found: variables[found[1]], command)


def _is_whole(lines: list[str]) -> bool:
    try:
        _words("\n".join(lines))
    except ValueError:  # a quote is open, or the line ends with a backslash
        return False
    return True


def _words(command: str) -> list[str]:
    return shlex.split(command.replace("\\\n", ""))


def parsed(command: str) -> Namespace:
    """The parsed command; an unknown flag ends the test."""
    parser = ArgumentParser("curl", allow_abbrev=False, add_help=False)
    for flag in ("-s", "-i", "-I", "-N"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("-D", choices=["-"])
    parser.add_argument("-m", type=float)
    for flag in ("-o", "-r", "-X", "-d", "--data-binary"):
        parser.add_argument(flag)
    for flag in ("-H", "-F"):
        parser.add_argument(flag, action="append", default=[])
    parser.add_argument("url")
    name, *arguments = _words(command)
    assert name == "curl", command
    return parser.parse_args(arguments)


def method(asked: Namespace) -> str:
    """The HTTP method curl would use."""
    posts = asked.F or asked.d is not None or asked.data_binary is not None
    return str(asked.X or ("HEAD" if asked.I else "POST" if posts else "GET"))


async def run(client: httpx2.AsyncClient, asked: Namespace, folder: Path) -> Printed:
    """Sends the request as curl would, in that folder."""
    said, content = {"headers": _headers(asked), **_content(asked, folder)}, b""
    async with client.stream(method(asked), f"http://{asked.url}", **said) as answer:
        with suppress(TimeoutError):
            async with asyncio.timeout(asked.m):
                async for piece in answer.aiter_bytes():
                    content += piece
    head = ""
    if asked.i or asked.I or asked.D:
        first = f"{answer.http_version} {answer.status_code} {answer.reason_phrase}"
        head = "\n".join([first, *(f"{name}: {value}" for name, value in answer.headers.items())])
    if asked.o:
        (folder / asked.o).write_bytes(content)
    kind = answer.headers.get("Content-Type", "").partition(";")[0]
    body = "" if asked.o else content.decode()
    return Printed(head, body, asked.o or "", kind, answer.status_code)


def _headers(asked: Namespace) -> dict[str, str]:
    headers = {"Accept": "*/*", "User-Agent": "curl/8"}
    if asked.d is not None or asked.data_binary is not None:
        headers["Content-Type"] = FORM
    if asked.r:
        headers["Range"] = f"bytes={asked.r}"
    return headers | dict(header.split(": ", 1) for header in asked.H)


def _content(asked: Namespace, folder: Path) -> dict[str, Any]:
    if asked.F:
        parts = [part.split("=", 1) for part in asked.F]
        files = {
            name: (value[1:], (folder / value[1:]).read_bytes())
            for name, value in parts
            if value.startswith("@")
        }
        return {"files": files, "data": {n: v for n, v in parts if n not in files}}
    given = asked.d if asked.d is not None else asked.data_binary
    if given is None:
        return {}
    return {"content": (folder / given[1:]).read_bytes() if given.startswith("@") else given}
