"""Live lists: pushed without polling, without disturbing focus or selection."""

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from tests.browser.api_client import ApiClient
from tests.support.site import Site

LISTS = ("/jobs", "/jobs/events", "/collections", "/collections/events")
SET_HIDDEN = """(hidden) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
STARTED_PERCENT = re.compile(r"^[1-9]\d?$")


def list_requests(page: Page) -> list[str]:
    """Collects the paths of all list requests of the page from now on."""
    paths: list[str] = []

    def note(request: Request) -> None:
        path = urlsplit(request.url).path
        if path in LISTS:
            paths.append(path)

    page.on("request", note)
    return paths


def row_of(page: Page, job_id: str) -> Locator:
    return page.locator(".row").filter(has=page.locator(f'[href="#/job/{job_id}"]'))


def newest_ended(page: Page) -> str:
    """The newest ended job on the page; earlier tests may have left many."""
    ended = page.locator(".row").filter(has=page.get_by_role("button", name="Run again"))
    address = ended.first.locator(".row-title").get_attribute("href") or ""
    return address.removeprefix("#/job/")


def test_a_job_advances_to_its_end_on_a_list_requested_once(
    page: Page, running_job: str, held_site: Site
) -> None:
    requests = list_requests(page)
    page.goto("/#/jobs")
    row = row_of(page, running_job)
    expect(row.get_by_role("progressbar")).to_have_attribute("aria-valuenow", STARTED_PERCENT)
    link = row.get_by_role("link")
    link.focus()

    held_site.release.set()

    expect(row.locator(".chip")).to_have_text("Done")
    expect(link).to_be_focused()
    assert requests == ["/jobs/events"]


@pytest.mark.parametrize("place", ["/", "/#/jobs"])
def test_jobs_appear_and_disappear_as_other_clients_create_and_delete_them(
    page: Page, finished_job: str, api: ApiClient, site: Site, place: str
) -> None:
    requests = list_requests(page)
    page.goto(place)
    expect(page.locator(".row").first).to_be_visible()

    job_id = api.finished(api.submit(f"{site.url}/files/short.ogg"))
    expect(row_of(page, job_id).locator(".chip")).to_have_text("Done")
    api.delete(job_id)

    expect(row_of(page, job_id)).to_have_count(0)
    assert requests == ["/jobs/events"]


def test_focus_and_selection_stay_while_jobs_appear(
    page: Page, finished_job: str, api: ApiClient, site: Site
) -> None:
    page.goto("/#/jobs")
    newest = row_of(page, newest_ended(page))
    title = newest.locator(".row-title bdi")
    again = newest.get_by_role("button", name="Run again")
    again.focus()
    title.evaluate("(title) => getSelection().selectAllChildren(title)")

    job_id = api.submit(f"{site.url}/files/short.ogg")

    expect(row_of(page, job_id).locator(".chip")).to_have_text("Done")
    assert page.evaluate("String(getSelection())") == title.inner_text()
    expect(again).to_be_focused()


def test_leaving_a_view_closes_its_event_stream(page: Page) -> None:
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


def test_a_hidden_tab_closes_its_event_stream_until_it_is_visible_again(
    page: Page, finished_job: str
) -> None:
    requests = list_requests(page)
    page.goto("/#/jobs")
    expect(page.locator(".row").first).to_be_visible()

    with page.expect_event("requestfailed", lambda one: "/jobs/events" in one.url):
        page.evaluate(SET_HIDDEN, True)
    page.evaluate("fetch('live').then((answer) => answer.status)")  # follows every earlier request
    assert requests == ["/jobs/events"]
    with page.expect_response("**/jobs/events?*"):
        page.evaluate(SET_HIDDEN, False)

    expect(page.locator(".row").first).to_be_visible()


def test_an_empty_page_shows_the_error_until_the_stream_is_open(
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
