"""The login of a browser by an OpenID Connect provider, through the gateway of a real mesh."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from html import unescape
from urllib.parse import parse_qsl, quote, urlsplit

import httpx2
import pytest

from mesh.reasons import Reason
from tests.conftest import COOKIE_PREFIX, RealMesh, guarded_mesh
from tests.support.command import run
from tests.support.oidc_provider import CLIENT_ID, Provider, serving_provider, variables_for

PLACE = "#/jobs/1?find=a%20b"
LOGIN_COOKIE, SESSION_COOKIE = (
    f"{COOKIE_PREFIX}ytcaption-{purpose}" for purpose in ("login", "session")
)


@pytest.fixture(scope="module")
def running_provider() -> Iterator[Provider]:
    with serving_provider() as running:
        yield running


@pytest.fixture(scope="module")
def guarded(
    tmp_path_factory: pytest.TempPathFactory, running_provider: Provider
) -> Iterator[RealMesh]:
    folder = tmp_path_factory.mktemp("guarded")
    variables = variables_for(running_provider, folder / "client.secret")
    with guarded_mesh(folder, **variables) as mesh:
        yield mesh


@pytest.fixture
def provider(running_provider: Provider) -> Provider:
    """The provider, without lies."""
    running_provider.claims = {"sub": "ana", "groups": ["writers"]}
    running_provider.lies, running_provider.forge, running_provider.logouts = {}, None, []
    return running_provider


@pytest.fixture
async def browser(guarded: RealMesh, provider: Provider) -> AsyncIterator[httpx2.AsyncClient]:
    async with guarded.browser() as client:
        yield client


async def callback_of(browser: httpx2.AsyncClient, place: str = "") -> str:
    """Begins a login; the address that the provider sends the browser back to."""
    query = f"?next={quote(place, safe='')}" if place else ""
    begun = await browser.get(f"/login/oidc{query}")
    assert begun.status_code == 303
    async with httpx2.AsyncClient() as elsewhere:  # another site: none of our cookies
        return str((await elsewhere.get(begun.headers["Location"])).headers["Location"])


def goes_on_to(page: httpx2.Response) -> str:
    """Where a page that goes on by itself leads."""
    assert page.status_code == 200
    found = re.search(r'http-equiv="refresh" content="0; url=([^"]*)"', page.text)
    assert found
    return unescape(found[1])


def cookie(answer: httpx2.Response, name: str) -> str:
    """The line that sets or takes a cookie; "" if none does."""
    lines = [line for line in answer.headers.get_list("set-cookie") if line.startswith(name)]
    return lines[0] if lines else ""


async def test_the_form_offers_the_token_and_the_provider(browser: httpx2.AsyncClient) -> None:
    form = (await browser.get("/login")).text

    assert 'name="token"' in form
    assert 'href="login/oidc"' in form
    assert "Staff &amp; Co" in form


async def test_a_person_of_the_provider_gets_a_session_and_the_place_back(
    browser: httpx2.AsyncClient, guarded: RealMesh
) -> None:
    begun = await browser.get(f"/login/oidc?next={quote(PLACE)}")
    kept = cookie(begun, LOGIN_COOKIE)
    for attribute in ("HttpOnly", "SameSite=lax", "Path=/", "Max-Age=600"):
        assert attribute in kept

    callback = await callback_of(browser, PLACE)
    assert callback.startswith(f"{guarded.http}/login/callback?")
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    page = await browser.get(callback, headers=headers)

    assert goes_on_to(page) == f"../{PLACE}"
    assert page.headers["Cache-Control"] == "private, no-store"
    assert page.headers["Referrer-Policy"] == "no-referrer", "the code is in its address"
    session = cookie(page, SESSION_COOKIE)
    for attribute in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=43200"):
        assert attribute in session
    assert "Max-Age=0" in cookie(page, LOGIN_COOKIE)
    caller = (await browser.get("/session")).json()
    assert caller.pop("csrf_token")
    assert caller == {"subject": "ana", "role": "submitter", "login": True, "groups": []}
    assert (await browser.get("/admin/stats")).json()["reason"] == Reason.ROLE_REQUIRED


async def test_an_answer_counts_once_and_only_in_its_browser(
    browser: httpx2.AsyncClient, guarded: RealMesh
) -> None:
    callback = await callback_of(browser)
    async with guarded.browser() as other:
        await other.get("/login/oidc")  # another login is begun there
        foreign = await other.get(callback)
    kept = dict(browser.cookies)
    first = await browser.get(callback)
    async with guarded.browser(cookies=kept) as other:
        again = await other.get(callback)

    assert cookie(first, SESSION_COOKIE)
    for refused in (foreign, again, await browser.get(callback)):
        assert refused.headers["Location"] == f"../login?refused={Reason.OIDC_STATE_INVALID}"
        assert not cookie(refused, SESSION_COOKIE)
        assert "Max-Age=0" in cookie(refused, LOGIN_COOKIE)


@pytest.mark.parametrize(
    "place",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "#/x\r\nSet-Cookie: a=b",
        '#/"><script>',
        "#//evil.example;url=https://evil.example",
        "?next=1",
        f"#/{'x' * 2000}",
    ],
)
async def test_next_never_leads_to_another_site(
    browser: httpx2.AsyncClient, guarded: RealMesh, place: str
) -> None:
    page = await browser.get(await callback_of(browser, place))
    assert goes_on_to(page) == "../"

    form = {"token": guarded.token, "next": place}
    assert (await browser.post("/login", data=form)).headers["Location"] == "."
    form["token"] = "ytc_"  # noqa: S105 # none
    refused = await browser.post("/login", data=form)
    assert refused.headers["Location"] == "login?refused=token"


async def test_a_token_in_the_form_gets_the_place_back_too(
    browser: httpx2.AsyncClient, guarded: RealMesh
) -> None:
    form = {"token": guarded.token, "next": PLACE}
    assert (await browser.post("/login", data=form)).headers["Location"] == f".{PLACE}"
    refused = await browser.post("/login", data={"token": "", "next": PLACE})
    assert dict(parse_qsl(urlsplit(refused.headers["Location"]).query)) == {
        "refused": "token",
        "next": PLACE,
    }


async def test_another_site_may_not_begin_a_login(browser: httpx2.AsyncClient) -> None:
    for site in ("cross-site", "same-site"):
        refused = await browser.get("/login/oidc", headers={"Sec-Fetch-Site": site})
        assert (refused.status_code, cookie(refused, LOGIN_COOKIE)) == (403, "")


async def test_a_refusal_leads_to_the_form_with_its_reason(
    browser: httpx2.AsyncClient, provider: Provider
) -> None:
    provider.claims = {"sub": "bia", "groups": []}
    refused = await browser.get(await callback_of(browser, PLACE))
    query = dict(parse_qsl(urlsplit(refused.headers["Location"]).query))
    assert query == {"refused": Reason.OIDC_ROLE_MISSING, "next": PLACE}

    provider.lies = {"aud": "another"}
    refused = await browser.get(await callback_of(browser))
    assert refused.headers["Location"].endswith(Reason.OIDC_AUDIENCE_MISMATCH)

    denied = re.sub("code=[^&]*", "error=access_denied", await callback_of(browser))
    assert (await browser.get(denied)).headers["Location"].endswith(Reason.OIDC_DENIED)
    mixed = re.sub("iss=[^&]*", "iss=https://evil.example", await callback_of(browser))
    refused = await browser.get(mixed)
    assert refused.headers["Location"].endswith(Reason.OIDC_ISSUER_MISMATCH)
    assert (await browser.get("/jobs")).status_code == 401


async def test_an_admin_logs_a_person_out_by_a_command(
    browser: httpx2.AsyncClient, guarded: RealMesh
) -> None:
    await browser.get(await callback_of(browser))
    own = {**guarded.variables(), "XDG_STATE_HOME": str(guarded.data_dir / "state")}

    said = await run("token", "logout", "ana", **own)
    again = await run("token", "logout", "ana", "--json", **own)

    assert (said.code, json.loads(again.out)) == (0, {"sessions_ended": 0}), said.err
    assert said.out.startswith("sessions ended: ")
    assert (await browser.get("/jobs")).status_code == 401


async def test_a_logout_ends_the_session_here_and_at_the_provider(
    browser: httpx2.AsyncClient, guarded: RealMesh
) -> None:
    async with guarded.browser() as other:
        for one in (browser, other):
            await one.get(await callback_of(one))
        foreign = await browser.post("/logout", headers={"Origin": "http://evil.example"})
        assert foreign.status_code == 403

        proof = (await other.get("/session")).json()["csrf_token"]
        page = await other.post("/logout?everywhere", data={"csrf_token": proof})
        parts = urlsplit(goes_on_to(page))
        query = dict(parse_qsl(parts.query))
        assert parts.path == "/logout"
        assert query["client_id"] == CLIENT_ID
        assert query["post_logout_redirect_uri"] == f"{guarded.http}/login"
        assert "Max-Age=0" in cookie(page, SESSION_COOKIE)
        for one in (browser, other):
            assert (await one.get("/jobs")).status_code == 401
