"""A mesh without a login: the page asks for none, and does the same as with one."""

import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import opened_context, page_errors, serious_violations
from tests.conftest import DATA, RealMesh, running_mesh
from tests.support.site import Site


@pytest.fixture(scope="module")
def open_mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesh]:
    with running_mesh(tmp_path_factory.mktemp("open"), ORCHESTRATOR_LOGIN="false") as mesh:
        assert not mesh.token
        yield mesh


@pytest.fixture
def visitor(browser: Browser, open_mesh: RealMesh) -> Iterator[Page]:
    with opened_context(browser, open_mesh) as context:
        opened = context.new_page()
        errors = page_errors(opened)
        yield opened
    assert errors == []


def test_the_page_asks_for_no_login_and_offers_no_logout(visitor: Page) -> None:
    with visitor.expect_response("**/session") as answer:
        visitor.goto("/#/jobs")
    assert answer.value.json()["login"] is False

    expect(visitor.get_by_role("navigation", name="Main")).to_be_visible()
    expect(visitor.get_by_role("button", name=re.compile("Log out"))).to_have_count(0)
    assert serious_violations(Axe(), visitor) == []


def test_an_address_and_a_file_become_captions_that_are_listed_and_deleted(
    visitor: Page, site: Site
) -> None:
    visitor.goto("/")
    visitor.get_by_label("Address of a video or recording").fill(f"{site.url}/files/short.ogg")
    visitor.get_by_role("button", name="Make captions").click()
    expect(visitor.get_by_text("Captions are ready.")).to_be_visible()
    with visitor.expect_download() as download:
        visitor.get_by_role("link", name="SRT").click()
    assert "weather" in download.value.path().read_text()

    visitor.goto("/")
    visitor.locator("input[type=file]").set_input_files(DATA / "short.ogg")
    expect(visitor.locator(".line-text")).to_have_text("The weather is lovely this morning.")
    assert serious_violations(Axe(), visitor) == []

    visitor.get_by_role("button", name="Delete").click()
    visitor.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(visitor).to_have_url(re.compile("#/jobs"))
    expect(visitor.locator(".row")).to_have_count(1)
