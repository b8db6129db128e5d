"""The original contract's documents: the example messages in them, and what they leave out."""

import ast
import json
import re
from pathlib import Path
from typing import Any

FENCED = re.compile(r"```(json|python)\n(.*?)```", re.DOTALL)
KINDS = ("iniciar_coleta", "resultado_coleta", "iniciar_execucao", "resultado_execucao")


def messages_of(text: str) -> list[dict[str, Any]]:
    """Every example message of a document, in order.

    `{...}` stands for an object of any content, so an empty one is sent; where a document names
    several kinds for one example, it is one message of each.
    """
    found: list[dict[str, Any]] = []
    for language, block in FENCED.findall(text):
        if '"tipo_evento"' not in block:
            continue
        if language == "json":
            found += _expanded(json.loads(block.replace("{...}", "{}")))
        else:
            found += _literals(block)
    return found


def messages_in(*paths: Path) -> list[dict[str, Any]]:
    """Every example message of these files."""
    return [one for path in paths for one in messages_of(path.read_text(encoding="utf-8"))]


def _expanded(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [message | {"tipo_evento": kind} for kind in message["tipo_evento"].split("|")]


def _literals(program: str) -> list[dict[str, Any]]:
    """Messages a program writes out; not those it computes."""
    found = []
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Dict):
            try:
                value = ast.literal_eval(node)
            except ValueError:
                continue
            if "tipo_evento" in value:
                found.append(value)
    return found


ROUTE = re.compile(r"^### (?:GET|POST) `([^`]+)`$", re.MULTILINE)
BODY = re.compile(r"\*\*(Request|Response)\*\*:\n```json\n(.*?)```", re.DOTALL)


def shapes_of(text: str) -> dict[tuple[str, str], Any]:
    """Every JSON body of a document, by its route and its kind."""
    found: dict[tuple[str, str], Any] = {}
    _, *parts = ROUTE.split(text)
    for route, part in zip(parts[::2], parts[1::2], strict=True):
        for kind, body in BODY.findall(part):
            found[route, kind] = json.loads(body)
    return found


def misfits(answer: Any, example: Any, place: str = "") -> list[str]:
    """Where an answer lacks what an example has, or has it in another type."""
    if isinstance(example, dict) and isinstance(answer, dict):
        return [
            problem
            for name, value in example.items()
            for problem in (
                misfits(answer[name], value, f"{place}.{name}")
                if name in answer
                else [f"{place}.{name}: missing"]
            )
        ]
    if isinstance(example, list) and isinstance(answer, list):
        return [problem for one in answer for problem in misfits(one, example[0], f"{place}[]")]
    if isinstance(example, int | float) and not isinstance(example, bool):
        fits = isinstance(answer, int | float) and not isinstance(answer, bool)
    else:
        fits = type(answer) is type(example)
    return [] if fits else [f"{place}: {answer!r} is not like {example!r}"]
