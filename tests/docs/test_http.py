"""Every `curl` of docs/http.md answers what the page says, against a real mesh, in its order."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from time import monotonic

import httpx2
import pytest

from gateway.app import create_app
from gateway.http.problems import COMMON_STATUSES, REASON_STATUSES, STATUSES
from gateway.settings import Settings
from tests.conftest import RealMesh
from tests.docs.answers import LEFT_OUT, DifferentError, Names, compare
from tests.docs.curl import Example, Printed, examples, method, parsed, run
from tests.docs.http_mesh import Documented, documented_mesh
from tests.docs.pages import blocks, page, rows

PAGE = page("docs/http.md")
EXAMPLES = examples(PAGE)
SECONDS = 120
NOT_TO_BE_FORCED = {500, 504, 507}
"""Statuses that no command can cause on a healthy mesh."""


@pytest.fixture(scope="module")
async def mesh(
    real_mesh: RealMesh, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Documented]:
    async with documented_mesh(real_mesh, tmp_path_factory.mktemp("documented")) as running:
        yield running


@pytest.fixture(scope="module")
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=60) as opened:
        yield opened


async def test_every_command_answers_what_the_page_shows(
    client: httpx2.AsyncClient, mesh: Documented
) -> None:
    different = await _first_difference(client, Names(mesh.places), mesh.folder)

    assert not different, different


async def test_a_webhook_has_the_body_its_page_shows(
    client: httpx2.AsyncClient, mesh: Documented
) -> None:
    (shown,) = blocks(page("docs/webhooks.md"), "json")
    order = {
        "youtube_url": f"{mesh.places['https://example.org']}/files/talk.ogg",
        "language": "en",
        "correlation_id": json.loads(shown)["data"]["correlation_id"],
        "webhook_url": mesh.receiver.url,
        "force": True,
    }
    earlier = len(mesh.receiver.received)

    await client.post(f"http://{mesh.places['localhost:8000']}/pipeline", json=order)

    body = (await mesh.receiver.wait_for(earlier + 1))[-1].body.decode()
    real = Printed(head="", body=body, saved="", kind="application/json", status=200)
    open_ended = shown.replace("}", f", {LEFT_OUT}}}")  # it is shortened
    any_size = re.sub(r'"size_bytes": "\d+"', f'"size_bytes": {LEFT_OUT}', open_ended)
    compare(any_size, real, Names(mesh.places))


async def _first_difference(client: httpx2.AsyncClient, names: Names, folder: Path) -> str:
    """The first example that differs; later ones depend on it."""
    for example in EXAMPLES:
        try:
            await _check(client, example, names, folder)
        except DifferentError as error:
            return f"{example.command}\n{error}"
    return ""


async def _check(client: httpx2.AsyncClient, example: Example, names: Names, folder: Path) -> None:
    """Compares one example; a GET is repeated until it matches, because a reader is slower."""
    asked = parsed(names.here(example.command))
    deadline = monotonic() + SECONDS
    while True:
        printed = await run(client, asked, folder)
        try:
            compare(example.answer, printed, names)
        except DifferentError:
            if method(asked) != "GET" or monotonic() > deadline:
                raise
            await asyncio.sleep(0.1)
        else:
            return


@cache
def _routes() -> list[tuple[str, str]]:
    """Every method with its path."""
    paths = create_app(Settings()).openapi()["paths"]
    return [(verb.upper(), path) for path, verbs in paths.items() for verb in verbs]


def test_the_table_of_routes_is_that_of_the_gateway() -> None:
    described = {(verb, _without_names(path)) for verb, path in _routes()}
    said = {
        (verb, _without_names(path))
        for row in rows(PAGE.split("\n## ")[0])
        for verb, path in re.findall(r"`([A-Z]+) (/[^`? ]*)", " ".join(row))
    }

    assert said == described


def test_every_route_has_an_example() -> None:
    asked = [(method(call), call.url) for call in (parsed(one.command) for one in EXAMPLES)]

    for verb, path in _routes():
        pattern = re.sub(r"\\\{\w+\\\}", "[^/?]+", re.escape(path))
        assert any(
            used == verb and re.fullmatch(rf"[^/]+{pattern}(\?.*)?", url) for used, url in asked
        ), (verb, path)


def test_every_status_of_a_refusal_is_explained_and_shown() -> None:
    section = PAGE.split("## Refusals\n")[1].split("\n## ")[0]
    shown = {int(status) for status in re.findall(r'"status": (\d{3})', section)}
    named = {int(status) for status in re.findall(r"\b(\d{3}), (?:a|the)\s", section)}

    assert named == NOT_TO_BE_FORCED
    assert shown | named >= {*STATUSES.values(), *REASON_STATUSES.values(), *COMMON_STATUSES}
    assert shown >= {405, 416}


def _without_names(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "{}", path)
