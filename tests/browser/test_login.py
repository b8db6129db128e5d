"""With a login, the page asks for a token or a link, and a session ends where it is told to."""

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from mesh.tokens import new_token
from tests.browser.conftest import DESKTOP, page_errors
from tests.conftest import RealMesh, running_mesh


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesh]:
    folder = tmp_path_factory.mktemp("guarded")
    state = {"XDG_STATE_HOME": str(folder / "state")}
    with running_mesh(folder, ORCHESTRATOR_LOGIN="", **state) as mesh:
        yield mesh


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

    token = next((guarded.data_dir / "state").rglob("*.token")).read_text().strip()
    visitor.get_by_label("Token").fill(token)
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
    token = next((guarded.data_dir / "state").rglob("*.token")).read_text().strip()
    desktop = {**DESKTOP, "base_url": guarded.http, "locale": locale}
    with browser.new_context(**desktop) as here, browser.new_context(**desktop) as there:
        pages = [context.new_page() for context in (here, there)]
        for page in pages:
            assert page.request.post("/login", form={"token": token}).ok
            page.goto("/#/jobs")
        assert there.request.get("/jobs").status == 200

        expect(pages[0].get_by_role("button", name=words)).to_be_visible()
        assert Axe().run(pages[0], context=".top").response["violations"] == []
        pages[0].set_viewport_size({"width": 360, "height": 740})
        assert pages[0].evaluate("document.documentElement.scrollWidth") == 360, "a phone"
        pages[0].get_by_role("button", name=words).click()
        expect(pages[0]).to_have_url(re.compile("/login$"))

        assert there.request.get("/jobs").status == 401
