"""Lists move by themselves: nobody asks again, and nobody is disturbed."""

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from tests.browser.caller import Caller
from tests.site import Site

LISTS = ("/jobs", "/jobs/events", "/collections", "/collections/events")
TURNED_AWAY = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
MOVING = re.compile(r"^[1-9]\d?$")


def asked_for(page: Page) -> list[str]:
    """Every list the page asks for from here on."""
    asked: list[str] = []

    def note(request: Request) -> None:
        path = urlsplit(request.url).path
        if path in LISTS:
            asked.append(path)

    page.on("request", note)
    return asked


def row_of(page: Page, job_id: str) -> Locator:
    return page.locator(".row").filter(has=page.locator(f'[href="#/job/{job_id}"]'))


def newest_ended(page: Page) -> str:
    """There may be more than a page of others."""
    ended = page.locator(".row").filter(has=page.get_by_role("button", name="Run again"))
    address = ended.first.locator(".row-title").get_attribute("href") or ""
    return address.removeprefix("#/job/")


def test_a_job_moves_to_its_end_on_a_list_that_was_asked_for_once(
    page: Page, running_job: str, held: Site
) -> None:
    asked = asked_for(page)
    page.goto("/#/jobs")
    row = row_of(page, running_job)
    expect(row.get_by_role("progressbar")).to_have_attribute("aria-valuenow", MOVING)
    link = row.get_by_role("link")
    link.focus()

    held.release.set()

    expect(row.locator(".chip")).to_have_text("Done")
    expect(link).to_be_focused()
    assert asked == ["/jobs/events"]


@pytest.mark.parametrize("place", ["/", "/#/jobs"])
def test_jobs_come_and_go_as_others_make_and_delete_them(
    page: Page, finished_job: str, caller: Caller, site: Site, place: str
) -> None:
    asked = asked_for(page)
    page.goto(place)
    expect(page.locator(".row").first).to_be_visible()

    job_id = caller.finished(caller.submit(f"{site.url}/files/short.ogg"))
    expect(row_of(page, job_id).locator(".chip")).to_have_text("Done")
    caller.delete(job_id)

    expect(row_of(page, job_id)).to_have_count(0)
    assert asked == ["/jobs/events"]


def test_focus_and_marked_text_stay_while_others_come(
    page: Page, finished_job: str, caller: Caller, site: Site
) -> None:
    page.goto("/#/jobs")
    newest = row_of(page, newest_ended(page))
    title = newest.locator(".row-title bdi")
    again = newest.get_by_role("button", name="Run again")
    again.focus()
    title.evaluate("(title) => getSelection().selectAllChildren(title)")

    job_id = caller.submit(f"{site.url}/files/short.ogg")

    expect(row_of(page, job_id).locator(".chip")).to_have_text("Done")
    assert page.evaluate("String(getSelection())") == title.inner_text()
    expect(again).to_be_focused()


def test_a_view_that_is_left_gives_its_line_back(page: Page) -> None:
    opened: list[Request] = []
    page.on("request", lambda one: opened.append(one) if "/events" in one.url else None)
    ended: list[Request] = []
    page.on("requestfailed", lambda one: ended.append(one))
    for place in ("/", "/#/jobs", "/#/collections", "/#/dead-letters"):
        page.goto(place)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator(".skeleton")).to_have_count(0)

    assert [urlsplit(one.url).path for one in opened] == [
        "/jobs/events",
        "/jobs/events",
        "/collections/events",
    ]
    assert ended == opened


def test_a_tab_that_nobody_sees_gives_its_line_back_until_it_is_seen(
    page: Page, finished_job: str
) -> None:
    asked = asked_for(page)
    page.goto("/#/jobs")
    expect(page.locator(".row").first).to_be_visible()

    with page.expect_event("requestfailed", lambda one: "/jobs/events" in one.url):
        page.evaluate(TURNED_AWAY, True)
    page.evaluate("fetch('live').then((answer) => answer.status)")  # after all asked before it
    assert asked == ["/jobs/events"]
    with page.expect_response("**/jobs/events?*"):
        page.evaluate(TURNED_AWAY, False)

    expect(page.locator(".row").first).to_be_visible()


def test_an_empty_page_says_what_is_wrong_until_the_line_is_there(
    page: Page, finished_job: str
) -> None:
    away = {"reason": "STORAGE_UNAVAILABLE", "detail": "the store does not answer"}
    for path in ("**/jobs/events?*", "**/jobs?*"):
        page.route(path, lambda route: route.fulfill(status=503, json=away))
    page.goto("/#/jobs")
    expect(page.get_by_role("button", name="Load again")).to_be_visible()
    expect(page.locator(".empty")).to_contain_text("store")

    page.unroute("**/jobs/events?*")

    expect(page.locator(".row").first).to_be_visible()
    expect(page.locator(".empty")).to_have_count(0)
