"""Every view on desktop, phone and dark mode: no serious axe violation; takes screenshots."""

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import DESKTOP, opened_context, page_errors, serious_violations
from tests.browser.fake_collection import (
    ID,
    collection,
    document,
    members_of_every_state,
    serve_collection,
    subtasks_of_every_state,
)
from tests.conftest import RealMesh
from tests.docs.pages import ROOT

SCREENSHOTS = ROOT / "out" / "screenshots"
NO_MOTION = DESKTOP | {"reduced_motion": "reduce"}
CONTEXTS: dict[str, dict[str, Any]] = {
    "desktop": NO_MOTION,
    "dark": NO_MOTION | {"color_scheme": "dark"},
    "phone": NO_MOTION
    | {
        "viewport": {"width": 390, "height": 844},
        "device_scale_factor": 2,
        "is_mobile": True,
        "has_touch": True,
    },
}


@pytest.fixture(scope="module")
def axe() -> Axe:
    return Axe()


@pytest.fixture(params=CONTEXTS)
def look(request: pytest.FixtureRequest, browser: Browser, real_mesh: RealMesh, axe: Axe) -> "Any":
    """A page, and a check of its current view: axe, width, and a screenshot."""
    with opened_context(browser, real_mesh, **CONTEXTS[request.param]) as context:
        page = context.new_page()
        errors = page_errors(page)

        def check(name: str) -> None:
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=SCREENSHOTS / f"{name}-{request.param}.png")
            assert serious_violations(axe, page) == []
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= CONTEXTS[request.param]["viewport"]["width"]

        yield page, check
    assert errors == []


Look = tuple[Page, Callable[[str], None]]


def test_the_start_page(look: Look, finished_job: str) -> None:
    page, check = look
    page.goto("/")
    expect(page.locator(".row").first).to_be_visible()
    check("start")
    page.get_by_text("Options").click()
    expect(page.get_by_label("Translate into")).to_be_visible()
    check("options")


def test_a_running_job(look: Look, running_job: str) -> None:
    page, check = look
    page.goto(f"/#/job/{running_job}")
    expect(page.locator(".spoken").nth(1)).to_be_visible()
    check("running")


def test_a_finished_job(look: Look, finished_job: str) -> None:
    page, check = look
    page.goto(f"/#/job/{finished_job}")
    expect(page.locator(".line")).to_have_count(6)
    page.get_by_label("Position").fill("8")
    page.get_by_label("Position").blur()
    expect(page.locator(".line").nth(2)).to_have_attribute("aria-current", "true")
    check("finished")
    page.locator(".line").nth(4).dblclick()
    expect(page.locator(".line textarea")).to_be_visible()
    page.get_by_label("Search in the text").fill("video")
    check("editing")


def test_a_failed_job(look: Look, failed_job: str) -> None:
    page, check = look
    page.goto(f"/#/job/{failed_job}")
    expect(page.locator(".failure")).to_be_visible()
    check("failed")


def test_the_list_of_jobs(look: Look, finished_job: str, failed_job: str) -> None:
    page, check = look
    page.goto("/#/jobs")
    expect(page.locator(".row").first).to_be_visible()
    check("jobs")
    page.goto("/#/jobs?q=nothing-like-this")
    page.reload()
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()
    check("no-jobs")


def test_dead_letters(look: Look, failed_job: str) -> None:
    page, check = look
    page.goto("/#/dead-letters")
    expect(page.locator(".letter").first).to_be_visible()
    check("dead-letters")


def test_health_help_and_questions(look: Look, finished_job: str) -> None:
    page, check = look
    page.goto(f"/#/job/{finished_job}")
    expect(page.locator(".line").first).to_be_visible()
    page.get_by_role("button", name="Health of the mesh: All well").click()
    expect(page.get_by_role("region", name="Health of the mesh")).to_be_visible()
    check("health")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    check("question")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")
    check("help")


def test_collections(look: Look) -> None:
    page, check = look
    members = members_of_every_state()
    serve_collection(page, collection(members), members)
    page.goto("/#/collections")
    expect(page.locator(".row").first).to_be_visible()
    check("collections")
    page.goto(f"/#/collection/{ID}")
    expect(page.locator(".member")).to_have_count(len(members))
    check("collection")
    page.goto("/#/collect")
    page.get_by_text("Playlists and channels").click()
    expect(page.get_by_label("Published from")).to_be_visible()
    check("collect")


def test_a_collection_with_subtasks_and_documents(look: Look) -> None:
    page, check = look
    members, subtasks = members_of_every_state(), subtasks_of_every_state()
    documents = [document(1, title="A title without an end " * 9), document(2, url="urn:x")]
    found = collection(members, subtask_count=len(subtasks), document_count=len(documents))
    serve_collection(page, found, members, subtasks, documents)
    page.goto(f"/#/collection/{ID}")
    expect(page.locator(".subtask")).to_have_count(len(subtasks))
    expect(page.locator(".document")).to_have_count(len(documents))
    page.locator(".subtask").nth(7).scroll_into_view_if_needed()
    check("collection-subtasks")
    page.locator(".document").last.scroll_into_view_if_needed()
    check("collection-documents")
