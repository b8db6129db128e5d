"""Every cell of `docs/access.md`, asked of a real orchestrator and of a real gateway."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from google.protobuf.duration import from_timedelta

from gateway.http.access import ROUTES
from mesh.identity import METHODS, Role
from tests.orchestrator.access.asking import ask, things_of
from tests.orchestrator.access.conftest import token_for
from tests.orchestrator.access.table import (
    ANSWERED,
    ASKED,
    ASKED_TYPE,
    LEFT_OUT,
    NOTHING,
    REQUESTS,
    RESULT_FILE,
    RPCS,
    About,
    Cells,
    Route,
    Things,
    about_route,
    least_role,
    of_route,
    of_rpc,
)
from tests.orchestrator.conftest import Start
from tests.orchestrator.webhooks.receiver import SECRET, receiving
from tests.support.client import Client
from tests.support.fixed_types import FixedTypes
from tests.support.http import running_gateway
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider, serving_provider
from tests.support.scripted import Script
from tests.support.segments import TEXT
from ytcaption.v1 import auth_service_pb2 as auth_pb
from ytcaption.v1 import token_pb2


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving_provider() as running:
        yield running


@pytest.fixture
async def stranger(
    start: Start, types: FixedTypes, first_token: str, provider: Provider, tmp_path: Path
) -> AsyncIterator[Client]:
    """With webhooks, which belong to owners, too, and with a provider to log in by."""
    secret = tmp_path / "client.secret"
    secret.write_text(CLIENT_SECRET)
    secret.chmod(0o600)
    async with start(
        types,
        login=True,
        token_file=str(tmp_path / "first.token"),
        webhook_secret=SECRET,
        webhook_private=True,
        oidc_issuer=provider.issuer,
        oidc_client_id=CLIENT_ID,
        oidc_client_secret_file=str(secret),
        oidc_redirect="http://127.0.0.1:8000",
        oidc_roles="writers=submitter",
    ) as client:
        yield client


@dataclass(frozen=True, slots=True)
class World:
    """Two owners with the same things, and their tokens of every kind."""

    stranger: Client
    expired: str
    ana: dict[Role, str]
    """A token of each role, for one owner."""
    bia: dict[Role, str]
    hers: Things
    others: Things

    async def renewed(self, things: Things) -> Things:
        """With a link and a login that were not used."""
        link = await self.stranger.with_token(self.ana[Role.READER]).auth.CreateLink(
            auth_pb.CreateLinkRequest()
        )
        begun = await self.stranger.auth.BeginLogin(auth_pb.BeginLoginRequest())
        async with httpx2.AsyncClient() as browser:
            answer = await browser.get(begun.authorization_url)
        query = dict(parse_qsl(urlsplit(answer.headers["Location"]).query))
        login = auth_pb.CompleteLoginRequest(
            secret=begun.secret, state=query["state"], code=query["code"], issuer=query["iss"]
        )
        return replace(things, link=link.code, login=login)


@pytest.fixture
async def world(stranger: Client, admin: Client, script: Script) -> AsyncIterator[World]:
    short = auth_pb.CreateTokenRequest(subject="ana", role=token_pb2.ROLE_ADMIN)
    short.lifetime.CopyFrom(from_timedelta(timedelta(microseconds=1)))
    expired = (await admin.auth.CreateToken(short)).secret
    ana, bia = [
        {
            role: (await token_for(admin, name, token_pb2.Role.Value(f"ROLE_{role.name}"))).secret
            for role in Role
            if role
        }
        for name in ("ana", "bia")
    ]
    async with receiving() as receiver:
        hers, others = [
            await things_of(
                name, stranger.with_token(tokens[Role.SUBMITTER]), admin, script, receiver.url
            )
            for name, tokens in (("ana", ana), ("bia", bia))
        ]
        yield World(stranger, expired, ana, bia, hers, others)


def test_every_rpc_and_every_route_is_in_the_table() -> None:
    assert ASKED.keys() == METHODS.keys() == RPCS.keys()
    assert REQUESTS.keys() <= ROUTES.keys()
    for name, role in METHODS.items():
        about = ASKED[name].about
        assert (about is About.OPEN) == (role is Role.ANYONE), name
        assert (about is About.MESH) == (role >= Role.OPERATOR), name
        assert bool(ASKED[name].missing) == (about is About.THING), name


async def test_every_rpc_answers_as_the_page_says(world: World) -> None:
    expected = {name: of_rpc(name) for name in ASKED}
    found: dict[str, Cells] = {}
    for name, about in ASKED.items():
        role = METHODS[name]
        ana, bia = (
            world.stranger.with_token(tokens.get(role, "")) if role else world.stranger
            for tokens in (world.ana, world.bia)
        )

        async def told(client: Client, things: Things) -> tuple[str, bytes]:
            request = ASKED[name].request(await world.renewed(things))  # noqa: B023
            return await ask(client, name, request)  # noqa: B023

        none, _ = await told(world.stranger, world.hers)
        expired, _ = await told(world.stranger.with_token(world.expired), world.hers)
        wrong = NOTHING
        if role > Role.READER:
            below = world.stranger.with_token(world.ana[Role(role - 1)])
            wrong, _ = await told(below, world.hers)
        other = NOTHING
        if about.about not in (About.CALLER, About.OPEN):
            other, seen = await told(bia, world.hers)
            if about.about is About.LIST and other == ANSWERED:
                other = "shown" if any(one in seen for one in world.hers.ids) else LEFT_OUT
        own, seen = await told(ana, world.hers)
        if own == ANSWERED:
            assert about.shows(world.hers).encode() in seen, name
        if about.about is not About.MESH:
            assert not any(one in seen for one in world.others.ids), name
        found[name] = Cells(own, other, none, expired, wrong)

    assert found == expected
    # What the other one has is all there, but for what she removed herself.
    bia = world.stranger.with_token(world.bia[Role.READER])
    assert await bia.text(world.others.job) == TEXT
    report = ASKED["CollectionService/GetReport"].request(world.others)
    assert (await ask(bia, "CollectionService/GetReport", report))[0] == ANSWERED


async def test_an_operator_is_shown_the_things_of_all_owners(world: World) -> None:
    operator = world.stranger.with_token(world.ana[Role.OPERATOR])
    for name, about in ASKED.items():
        if about.about is About.LIST and about.shows(world.hers):
            _, seen = await ask(operator, name, about.request(world.hers))
            for things in (world.hers, world.others):
                assert about.shows(things).encode() in seen, name


async def request_route(
    http: httpx2.AsyncClient, route: str, things: Things, token: str
) -> tuple[str, bytes]:
    """The answer as a cell says it, and its body: of an endless one the first event."""
    method, path = route.split(" ")
    letter = things.letter if method == "DELETE" else things.dead
    named = {
        "job_id": things.job,
        "collection_id": things.collection,
        "letter_id": letter,
        "role": "collector",
        "type": ASKED_TYPE,
        "number": 1,
        "name": RESULT_FILE,
    }
    asked = REQUESTS.get(route, Route())
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    place = path.format(**named, format="srt") + asked.query(things)
    async with http.stream(method, place, headers=headers, **asked.body) as answer:
        body = b""
        async for part in answer.aiter_bytes():
            body += part
            if path.endswith("s/events") and b"data:" in body:
                break
    http.cookies.clear()
    if answer.status_code < 400:
        return ANSWERED, body
    return f"{answer.status_code} {_reason(answer, body)}".strip(), body


def _reason(answer: httpx2.Response, body: bytes) -> str:
    """That of the problem; an answer to HEAD has none."""
    if answer.request.method == "HEAD":
        return ""
    return str(httpx2.Response(200, content=body).json()["reason"])


async def test_every_route_answers_as_the_page_says(world: World) -> None:
    found: dict[str, Cells] = {}
    # What removes things is asked last.
    routes = sorted(ROUTES, key=lambda one: (one.startswith("DELETE"), "job_id" in one))
    async with running_gateway(orchestrator=world.stranger.address) as http:
        for route in routes:
            role, about = least_role(route), about_route(route)
            ana, bia = ((tokens.get(role, "")) for tokens in (world.ana, world.bia))

            async def told(token: str) -> tuple[str, bytes]:
                things = await world.renewed(world.hers)
                return await request_route(http, route, things, token)  # noqa: B023

            none, _ = await told("")
            expired, _ = await told(world.expired)
            wrong = (await told(world.ana[Role(role - 1)]))[0] if role > Role.READER else NOTHING
            other = NOTHING
            if about not in (About.CALLER, About.OPEN):
                other, seen = await told(bia)
                if about is About.LIST and other == ANSWERED:
                    other = "shown" if any(one in seen for one in world.hers.ids) else LEFT_OUT
            own, seen = await told(ana)
            if about is not About.MESH:
                assert not any(one in seen for one in world.others.ids), route
            found[route] = Cells(own, other, none, expired, wrong)

    assert found == {route: _of_route(route) for route in routes}


def _of_route(route: str) -> Cells:
    cells = of_route(route)
    if not route.startswith("HEAD "):
        return cells
    return Cells(
        *(
            text.split(" ")[0]
            for text in (cells.own, cells.other, cells.none, cells.expired, cells.wrong)
        )
    )
