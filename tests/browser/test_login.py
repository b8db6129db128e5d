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
    visitor.get_by_role("button", name="Log out").click()
    expect(visitor).to_have_url(re.compile("/login$"))

    visitor.goto(found[0])
    expect(visitor.get_by_role("alert")).to_contain_text("This link is not valid any more.")
