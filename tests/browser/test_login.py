"""With a login, the page asks for a token or a link, and a session ends where it is told to."""

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from mesh.tokens import new_token
from tests.browser.conftest import DESKTOP, page_errors
from tests.conftest import RealMesh, guarded_mesh
from tests.support.oidc_provider import Provider, serving_provider, variables_for


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    """It is another site to the browser: localhost, not 127.0.0.1."""
    with serving_provider("localhost") as running:
        running.asks = True
        yield running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[RealMesh]:
    folder = tmp_path_factory.mktemp("guarded")
    with guarded_mesh(folder, **variables_for(provider, folder / "client.secret")) as mesh:
        yield mesh


@pytest.fixture
def refusing(provider: Provider) -> Iterator[Provider]:
    """The provider, with a person in no group."""
    provider.lies = {"groups": []}
    yield provider
    provider.lies = {}


@pytest.fixture
def visitor(browser: Browser, guarded: RealMesh) -> Iterator[Page]:
    with browser.new_context(**DESKTOP, base_url=guarded.http) as context:
        opened = context.new_page()
        errors = page_errors(opened)
        yield opened
    assert errors == []


def test_without_a_session_the_page_asks_for_a_token(visitor: Page, guarded: RealMesh) -> None:
    visitor.goto("/")

    expect(visitor).to_have_url(re.compile("/login$"))
    assert Axe().run(visitor).response["violations"] == []
    visitor.get_by_label("Token").fill(new_token())
    visitor.get_by_role("button", name="Log in").click()
    expect(visitor.get_by_role("alert")).to_have_text("This token is not valid.")

    visitor.get_by_label("Token").fill(guarded.token)
    visitor.get_by_role("button", name="Log in").click()
    expect(visitor.get_by_role("navigation", name="Main")).to_be_visible()


def test_a_link_opens_the_page_once_and_a_button_ends_the_session(
    visitor: Page, guarded: RealMesh
) -> None:
    log = (guarded.data_dir / "up.log").read_text()
    found = re.search(r"http://\S+/login\?code=\S+", log)
    assert found

    visitor.goto(found[0])
    expect(visitor).to_have_url(re.compile("/(#/)?$"))
    visitor.get_by_role("link", name="Jobs", exact=True).click()
    visitor.get_by_role("button", name="Log out", exact=True).click()
    expect(visitor).to_have_url(re.compile("/login$"))

    visitor.goto(found[0])
    expect(visitor.get_by_role("alert")).to_contain_text("This link is not valid any more.")


@pytest.mark.parametrize(
    ("locale", "words"), [("en-US", "Log out everywhere"), ("pt-BR", "Sair em todo lugar")]
)
def test_a_button_ends_the_sessions_of_every_browser(
    browser: Browser, guarded: RealMesh, locale: str, words: str
) -> None:
    desktop = {**DESKTOP, "base_url": guarded.http, "locale": locale}
    with browser.new_context(**desktop) as here, browser.new_context(**desktop) as there:
        pages = [context.new_page() for context in (here, there)]
        for page in pages:
            assert page.request.post("/login", form={"token": guarded.token}).ok
            page.goto("/#/jobs")
        assert there.request.get("/jobs").status == 200

        expect(pages[0].get_by_role("button", name=words)).to_be_visible()
        assert Axe().run(pages[0], context=".top").response["violations"] == []
        pages[0].set_viewport_size({"width": 360, "height": 740})
        assert pages[0].evaluate("document.documentElement.scrollWidth") == 360, "a phone"
        pages[0].get_by_role("button", name=words).click()
        expect(pages[0]).to_have_url(re.compile("/login$"))

        assert there.request.get("/jobs").status == 401


def test_the_provider_logs_in_leads_back_and_logs_out(
    visitor: Page, provider: Provider, guarded: RealMesh
) -> None:
    visitor.goto("/#/jobs?q=words")
    expect(visitor).to_have_url(re.compile(r"/login\?next="))
    assert Axe().run(visitor).response["violations"] == []
    visitor.get_by_role("link", name="Log in with Staff & Co").click()
    visitor.get_by_role("link", name="Go on as ana").click()  # from another site

    expect(visitor).to_have_url(f"{guarded.http}/#/jobs?q=words")
    expect(visitor.get_by_role("heading", name="Nothing matches")).to_be_visible()
    session = {one["name"].rpartition("-")[0]: one for one in visitor.context.cookies()}
    assert session.keys() == {"ytcaption-session"}
    assert session["ytcaption-session"]["sameSite"] == "Strict"
    assert session["ytcaption-session"]["httpOnly"]

    visitor.get_by_role("button", name="Log out", exact=True).click()
    expect(visitor).to_have_url(f"{guarded.http}/login")
    assert provider.logouts[-1]["id_token_hint"]
    visitor.goto("/#/jobs")
    expect(visitor).to_have_url(re.compile("/login"))


@pytest.mark.parametrize(
    ("locale", "words"),
    [("en-GB", "you have no role here."), ("pt-BR", "você não tem papel aqui.")],
)
def test_a_refusal_of_the_provider_is_said_in_words(
    browser: Browser, guarded: RealMesh, refusing: Provider, locale: str, words: str
) -> None:
    desktop = {**DESKTOP, "base_url": guarded.http, "locale": locale}
    with browser.new_context(**desktop) as context:
        page = context.new_page()
        page.goto("/login")
        page.get_by_role("link", name="Staff & Co").click()
        page.get_by_role("link", name="Go on as ana").click()

        expect(page.get_by_role("alert")).to_contain_text(words)
        assert Axe().run(page).response["violations"] == []
