"""`ytcaption up` with its login: its owner notices nothing, and everyone else is refused."""

import json
import re
import stat
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.routing import Mount, Route

from gateway.app import create_app
from gateway.http.access import ROUTES, role_of
from gateway.settings import Settings
from mesh.identity import Role
from mesh.reasons import Reason
from mesh.tokens import new_token
from tests.conftest import COOKIE_PREFIX, OVER_TLS, RealMesh, running_mesh
from tests.support.client import Client, refusal
from tests.support.command import run
from tests.support.polling import until
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import auth_service_pb2 as auth_pb
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import token_pb2

LIST = pb.ListJobsRequest()
ID = "01997b3e-6e0a-7c44-9d5f-0d3a5a3f2c11"
STATIC = ("/static", "/docs/assets")
"""Folders of files."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A mesh with a login, and where its owner's commands find the token."""

    mesh: RealMesh
    state: Path

    @property
    def token_file(self) -> Path:
        return next(self.state.rglob("*.token"))

    @property
    def token(self) -> str:
        return self.token_file.read_text().strip()

    @property
    def link(self) -> str:
        """The one-time link that `up` printed."""
        log = (self.mesh.data_dir / "up.log").read_text()
        found = re.search(r"https?://\S+/login\?code=\S+", log)
        assert found
        return found[0]

    def environment(self, **more: str) -> dict[str, str]:
        return {**self.mesh.variables(), "XDG_STATE_HOME": str(self.state), **more}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder, state = tmp_path_factory.mktemp("guarded"), tmp_path_factory.mktemp("state")
    with running_mesh(folder, ORCHESTRATOR_LOGIN="", XDG_STATE_HOME=str(state)) as mesh:
        yield Guarded(mesh, state)
    assert not list(state.rglob("*.token")), "the token ends with the mesh"


@pytest.fixture
async def stranger(guarded: Guarded) -> AsyncIterator[Client]:
    async with guarded.mesh.channel() as channel:
        yield Client(channel)


@pytest.fixture
async def http(guarded: Guarded) -> AsyncIterator[httpx2.AsyncClient]:
    async with guarded.mesh.browser() as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_the_owner_needs_no_flag(guarded: Guarded) -> None:
    listed = await run("jobs", **guarded.environment())
    stats = await run("stats", "--json", **guarded.environment())

    assert (listed.code, stats.code) == (0, 0), listed.err + stats.err
    assert json.loads(stats.out)["jobs"]


def test_no_other_user_can_read_the_token(guarded: Guarded) -> None:
    assert stat.S_IMODE(guarded.token_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(guarded.token_file.parent.stat().st_mode) == 0o700


async def test_another_user_is_refused(guarded: Guarded, tmp_path: Path) -> None:
    elsewhere = guarded.environment(XDG_STATE_HOME=str(tmp_path))

    refused = await run("jobs", **elsewhere)
    health = await run("health", **elsewhere)

    assert (refused.code, refused.out) == (3, "")
    assert "TOKEN_REQUIRED" in refused.err
    assert health.code == 0


async def test_a_caller_without_a_token_is_refused_on_grpc_and_http(
    stranger: Client, http: httpx2.AsyncClient
) -> None:
    assert await refusal(stranger.pipeline.ListJobs(LIST)) == Reason.TOKEN_REQUIRED
    for headers, reason in (
        ({}, Reason.TOKEN_REQUIRED),
        ({"Authorization": "Basic eDp5"}, Reason.TOKEN_REQUIRED),
        (bearer(new_token()), Reason.TOKEN_INVALID),
        (bearer('"quoted"'), Reason.TOKEN_INVALID),
        (
            {"Cookie": f"{COOKIE_PREFIX}ytcaption-session-{http.base_url.port}=junk"},
            Reason.TOKEN_INVALID,
        ),
    ):
        answer = await http.get("/jobs", headers=headers)
        assert (answer.status_code, answer.json()["reason"]) == (401, reason), headers
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert answer.headers["Content-Type"] == "application/problem+json"


async def test_every_route_asks_for_its_role(
    guarded: Guarded, stranger: Client, http: httpx2.AsyncClient
) -> None:
    tokens = {Role.ANYONE: "", Role.ADMIN: guarded.token}
    admin = stranger.with_token(guarded.token)
    for role in (Role.READER, Role.SUBMITTER, Role.OPERATOR):
        request = auth_pb.CreateTokenRequest(subject="someone")
        request.role = token_pb2.Role.Value(f"ROLE_{role.name}")
        tokens[role] = (await admin.auth.CreateToken(request)).secret

    own = bearer(tokens[Role.SUBMITTER])
    created = await http.post("/uploads", content=b"noise", headers=own)
    job_id = created.json()["job_id"]

    for route in ROUTES:
        required = role_of(route)
        for role, token in tokens.items():
            # A job is read before it is run again, so it must be there for its owner.
            path = route.replace("{job_id}/retry", f"{job_id}/retry")
            status = await _status(http, path, bearer(token) if token else {})
            refused = 403 if role else 401
            if role >= required:
                assert status not in (401, 403), (route, role)
            elif route == "POST /login":
                assert status == 303, "a browser is sent back to the form"
            else:
                assert status == refused, (route, role)


async def test_the_things_of_one_owner_are_on_no_route_of_another(
    stranger: Client, guarded: Guarded, http: httpx2.AsyncClient
) -> None:
    admin = stranger.with_token(guarded.token)
    carla, davi = [
        bearer((await admin.auth.CreateToken(request)).secret)
        for request in (
            auth_pb.CreateTokenRequest(subject=name, role=token_pb2.ROLE_SUBMITTER)
            for name in ("carla", "davi")
        )
    ]
    job_id = (await http.post("/uploads", content=b"noise", headers=carla)).json()["job_id"]
    async with http.stream("GET", f"/jobs/{job_id}/events", headers=carla) as answer:
        await answer.aread()
    sources = {"addresses": ["http://127.0.0.1:9/nothing"]}
    made = await http.post("/collections", json=sources, headers=carla)
    collection_id = made.json()["collection_id"]
    ids = {"job_id": job_id, "letter_id": job_id, "collection_id": collection_id}
    parts = {"format": "srt", "number": 1, "name": "report.md"}

    async def is_dead() -> bool:
        return job_id in (await http.get("/dead-letters", headers=carla)).text

    await until(is_dead)
    for route in ROUTES:
        method, path = route.split(" ")
        if "{" in path and role_of(route) <= Role.SUBMITTER:
            place = path.format(**ids, **parts)
            assert (await _status(http, f"{method} {place}", davi)) == 404, route
    for path in ("/jobs", "/collections", "/dead-letters", "/webhooks/deliveries"):
        listed = (await http.get(path, headers=davi)).text
        assert job_id not in listed, path
        assert collection_id not in listed, path
    for path in ("/jobs/events", "/collections/events"):
        async with http.stream("GET", path, headers=davi) as answer:
            first = b""
            async for part in answer.aiter_bytes():
                first += part
                if b"data:" in first:
                    break
            assert job_id.encode() not in first, path
    assert (await http.get(f"/jobs/{job_id}", headers=carla)).json()["status"] == "failed"
    assert job_id in (await http.get("/jobs", headers=carla)).text


async def test_the_stages_let_the_orchestrator_in(
    stranger: Client, guarded: Guarded, http: httpx2.AsyncClient
) -> None:
    admin = stranger.with_token(guarded.token)
    request = admin_pb.FactoryResetRequest(confirmation="ERASE EVERYTHING", dry_run=True)
    reset = await admin.admin.FactoryReset(request)
    created = await http.post("/uploads", content=b"noise", headers=bearer(guarded.token))
    job = await admin.finished(created.json()["job_id"])

    assert [one.error for one in reset.services if not one.done] == []
    assert job.failure.reason in {Reason.NOT_MEDIA, Reason.NO_AUDIO, Reason.CORRUPT_MEDIA}


async def test_owners_are_shown_and_a_reader_gets_the_number_of_all_dead_letters(
    stranger: Client, guarded: Guarded, http: httpx2.AsyncClient
) -> None:
    admin, all_of_them = stranger.with_token(guarded.token), bearer(guarded.token)
    eva, reader = [
        bearer((await admin.auth.CreateToken(request)).secret)
        for request in (
            auth_pb.CreateTokenRequest(subject="eva", role=role)
            for role in (token_pb2.ROLE_SUBMITTER, token_pb2.ROLE_READER)
        )
    ]
    made = [await http.post("/uploads", content=b"noise", headers=eva) for _ in range(2)]
    ids = [one.json()["job_id"] for one in made]
    sources = {"addresses": ["http://127.0.0.1:9/nothing"]}
    collection_id = (await http.post("/collections", json=sources, headers=eva)).json()[
        "collection_id"
    ]

    async def are_dead() -> bool:
        page = (await http.get("/dead-letters?limit=200", headers=reader)).json()
        return {*ids} <= {one["job_id"] for one in page["dead_letters"]}

    await until(are_dead)
    page = (await http.get("/dead-letters?limit=1", headers=reader)).json()
    everything = (await http.get("/dead-letters?limit=200", headers=reader)).json()
    jobs = (await http.get("/jobs?limit=200", headers=all_of_them)).json()["jobs"]
    collections = (await http.get("/collections", headers=all_of_them)).json()["collections"]

    assert len(page["dead_letters"]) == 1
    assert page["total"] == len(everything["dead_letters"]) >= 2
    assert {one["owner"] for one in everything["dead_letters"]} == {"eva"}
    assert {one["owner"] for one in jobs if one["job_id"] in ids} == {"eva"}
    assert [one["owner"] for one in collections if one["collection_id"] == collection_id] == ["eva"]
    for path in (f"/jobs/{ids[0]}", f"/collections/{collection_id}"):
        assert (await http.get(path, headers=all_of_them)).json()["owner"] == "eva"


async def _status(http: httpx2.AsyncClient, route: str, headers: dict[str, str]) -> int:
    method, path = route.split(" ")
    for part, value in (("format", "srt"), ("number", "1"), ("role", "collector")):
        path = path.replace(f"{{{part}}}", value)
    path = re.sub(r"\{\w+\}", ID, path)
    bodies: dict[str, dict[str, Any]] = {
        "/pipeline": {"json": {"youtube_url": "http://127.0.0.1:9/nothing"}},
        "/collections": {"json": {"sources": ["http://127.0.0.1:9/nothing"]}},
        "/uploads": {"content": b"noise"},
        "/admin/types": {"json": {"type": "x", "role": "collector", "transport": "queue"}},
        "/login": {"data": {"token": ""}},
    }
    if path in STATIC:
        path += "/theme.js" if path == "/static" else "/swagger-ui.css"
    elif path == "/search":
        path += "?q=word"
    body = bodies.get(path, {}) if method == "POST" else {}
    async with http.stream(method, path, headers=headers, **body) as answer:
        return answer.status_code


def test_every_route_is_in_the_table() -> None:
    app = create_app(Settings())
    described = {
        f"{verb.upper()} {path}" for path, verbs in app.openapi()["paths"].items() for verb in verbs
    }
    # Routers are described; the rest serves files and browsers. HEAD is GET without its body.
    others = {
        f"{verb} {route.path}"
        for route in app.routes
        if isinstance(route, Route | Mount)
        for verb in (getattr(route, "methods", None) or {"GET"}) - {"HEAD"}
    }

    assert described | others == ROUTES.keys()


async def test_a_link_logs_a_browser_in_once(guarded: Guarded, http: httpx2.AsyncClient) -> None:
    path = guarded.link.removeprefix(guarded.mesh.http)
    foreign = await http.get(path, headers={"Sec-Fetch-Site": "cross-site"})
    first = await http.get(path)
    cookie = first.headers["Set-Cookie"]

    assert foreign.status_code == 403
    assert (first.status_code, first.headers["Location"]) == (303, ".")
    for attribute in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"):
        assert attribute in cookie
    assert cookie.startswith("__Host-") == ("Secure" in cookie) == OVER_TLS
    assert (await http.get("/jobs")).status_code == 200, "the client keeps the cookie"
    beside = {"Cookie": f'other="[{{;,; bad cookie; {cookie.partition(";")[0]}'}
    async with guarded.mesh.browser() as other:
        assert (await other.get("/jobs", headers=beside)).status_code == 200
    caller = (await http.get("/session")).json()
    proof = {"csrf_token": caller.pop("csrf_token")}
    assert caller == {"subject": "admin", "role": "admin", "login": True, "groups": []}

    async with guarded.mesh.browser() as other:
        again = await other.get(path)
        assert again.headers["Location"] == "login?refused=link"
        assert (await other.get("/jobs")).status_code == 401

    # An old browser sends neither origin nor Sec-Fetch-Site: only the proof is missing there.
    for headers, form in (({"Origin": "http://evil.example"}, proof), ({}, {})):
        crossing = await http.post("/logout", data=form, headers=headers)
        assert crossing.status_code == 403
    assert (await http.get("/jobs")).status_code == 200
    assert (await http.post("/logout", data=proof)).status_code == 303
    assert "ytcaption-session" not in str(http.cookies)


async def test_a_session_changes_nothing_without_its_proof(
    guarded: Guarded, http: httpx2.AsyncClient
) -> None:
    await http.post("/login", data={"token": guarded.token})
    proof = (await http.get("/session")).json()["csrf_token"]
    change = "/admin/cleanup?dry_run=true"

    for wrong in ({}, {"X-CSRF-Token": "x"}, {"X-CSRF-Token": proof[:-1]}):
        refused = await http.post(change, headers=wrong)
        assert (refused.status_code, refused.json()["reason"]) == (403, Reason.CSRF_TOKEN_INVALID)
    accepted = await http.post(change, headers={"X-CSRF-Token": proof})
    bearer = {"Authorization": f"Bearer {guarded.token}"}
    by_token = await http.post(change, headers=bearer)

    assert [one.status_code for one in (accepted, by_token)] == [200, 200]


async def test_the_form_takes_a_token(guarded: Guarded, http: httpx2.AsyncClient) -> None:
    assert "<form" in (await http.get("/login")).text
    for token in ("", new_token(), "é\n"):
        refused = await http.post("/login", data={"token": token})
        assert refused.headers["Location"] == "login?refused=token"
    assert (await http.post("/login", data={"token": "x" * 5000})).status_code == 413

    await http.post("/login", data={"token": guarded.token})
    session = dict(http.cookies)
    assert (await http.get("/jobs")).status_code == 200

    proof = {"csrf_token": (await http.get("/session")).json()["csrf_token"]}
    everywhere = await http.post("/logout?everywhere", data=proof)
    assert everywhere.headers["Location"] == "login"
    stale = {"Cookie": "; ".join(f"{name}={value}" for name, value in session.items())}
    assert (await http.get("/jobs", headers=stale)).status_code == 401


async def test_tokens_are_made_listed_and_revoked_by_commands(
    guarded: Guarded, tmp_path: Path
) -> None:
    own = guarded.environment()
    made = await run("token", "create", "ana", "--role", "reader", "--hours", "1", **own)
    assert made.code == 0, made.err
    file = tmp_path / "ana.token"
    file.write_text(made.out)
    file.chmod(0o600)
    ana = guarded.environment(YTCAPTION_TOKEN_FILE=str(file))

    assert (await run("jobs", **ana)).code == 0
    assert "ROLE_REQUIRED" in (await run("stats", **ana)).err
    lines = (await run("token", "list", "--json", **own)).out.splitlines()
    listed = [json.loads(line) for line in lines]
    (token,) = [one for one in listed if one["subject"] == "ana"]
    assert (await run("token", "revoke", token["token_id"], **own)).code == 0
    assert "TOKEN_INVALID" in (await run("jobs", **ana)).err
    assert "revoked" in (await run("token", "list", **own)).out
    link = await run("token", "link", "--page", guarded.mesh.http, **own)
    assert link.out.startswith(f"{guarded.mesh.http}/login?code=ytc_")


async def test_the_audit_names_the_client_of_the_gateway_and_refusals(
    guarded: Guarded, http: httpx2.AsyncClient
) -> None:
    created = await http.post("/uploads", content=b"noise", headers=bearer(guarded.token))
    job_id = created.json()["job_id"]
    assert (await http.delete(f"/jobs/{job_id}")).status_code == 401
    found: list[dict[str, Any]] = []

    async def is_written() -> bool:
        command = ("audit", "--subject", "admin", "--hours", "1", "--json")
        listed = await run(*command, **guarded.environment())
        found[:] = [json.loads(line) for line in listed.out.splitlines()]
        return any(job_id in one.get("object_ids", ()) for one in found)

    await until(is_written)
    (entry,) = [one for one in found if job_id in one.get("object_ids", ())]
    assert (entry["client"], entry["method"]) == (
        "127.0.0.1",
        "PipelineService/CreateJobFromUpload",
    )
    table = await run("audit", "--limit", "200", **guarded.environment())
    assert "TOKEN_REQUIRED" in table.out
    assert job_id in table.out


async def test_a_job_and_its_events_pass_the_gateway(
    guarded: Guarded, http: httpx2.AsyncClient
) -> None:
    http.headers |= bearer(guarded.token)
    created = await http.post("/uploads?file_name=noise.bin", content=b"noise")
    path = created.headers["Location"]

    async with http.stream("GET", f"{path}/events") as answer:
        received = (await answer.aread()).decode()
    async with http.stream("GET", f"{path}/events", headers=bearer(new_token())) as answer:
        assert answer.status_code == 401

    assert "event: finished" in received
