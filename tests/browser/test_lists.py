"""Lists of jobs and dead letters: search, filters, pages, replay, deletion; health panel."""

import re

from playwright.sync_api import Page, expect

from tests.browser.api_client import ApiClient
from tests.support.site import Site

PAGE_SIZE = 20


def test_a_failed_job_shows_the_cause_and_what_to_do(page: Page, failed_job: str) -> None:
    page.goto(f"/#/job/{failed_job}")

    failure = page.locator(".failure")
    expect(failure).to_contain_text("There is nothing at this address that can be listened to.")
    expect(failure).to_contain_text("Open it in a browser and check it.")
    expect(failure.locator("code")).to_have_text("UNSUPPORTED_URL")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()


def test_jobs_are_filtered_by_text_and_state(
    page: Page, finished_job: str, failed_job: str
) -> None:
    page.goto("/#/jobs")
    rows = page.locator(".row")
    expect(rows.first).to_be_visible()

    page.get_by_role("group", name="State").get_by_text("Failed").click()
    expect(page.locator(".chip").first).to_have_text("Failed")
    expect(page.locator(".chip", has_text="Done")).to_have_count(0)
    page.get_by_label("Search by title or address").fill("article")
    expect(rows).to_have_count(1)
    expect(page).to_have_url(re.compile(r"#/jobs\?q=article&state=failed$"))

    page.reload()
    expect(rows).to_have_count(1)
    expect(page.get_by_label("Search by title or address")).to_have_value("article")
    page.get_by_label("Search by title or address").fill("no such thing")
    expect(page.get_by_role("heading", name="Nothing matches")).to_be_visible()


def test_jobs_are_listed_in_pages(page: Page, api: ApiClient, site: Site) -> None:
    address = f"{site.url}/files/short.ogg"
    api.finished(api.submit(address))
    while api.jobs()["total"] <= PAGE_SIZE:
        api.finished(api.submit(address, force=False))  # shares the first one's result
    page.goto("/#/jobs")
    rows = page.locator(".row")
    expect(rows).to_have_count(PAGE_SIZE)
    newest = page.locator(".row-title").first.get_attribute("href")

    page.get_by_role("button", name="Older").click()

    expect(page.get_by_text("Page 2")).to_be_visible()
    expect(rows.first).to_be_visible()
    assert page.locator(f'.row-title[href="{newest}"]').count() == 0
    page.reload()
    expect(page.get_by_text("Page 2")).to_be_visible()
    page.get_by_role("button", name="Newer").click()
    expect(page.locator(".row-title").first).to_have_attribute("href", str(newest))


def test_a_dead_letter_is_replayed_once_its_cause_is_gone(
    page: Page, api: ApiClient, site: Site
) -> None:
    address = site.page("/later.ogg", b"", "text/plain", status=404)
    job_id = api.finished(api.submit(address))
    page.goto("/#/dead-letters")
    letter = page.locator(".letter").filter(has=page.locator(f'[href="#/job/{job_id}"]'))
    expect(letter).to_contain_text("The site has nothing at this address.")
    expect(letter.locator("code")).to_have_text("VIDEO_NOT_FOUND")
    site.page("/later.ogg", (site.folder / "short.ogg").read_bytes(), "audio/ogg")

    letter.get_by_role("button", name="Replay").click()

    expect(page).to_have_url(re.compile(rf"#/job/{job_id}$"))
    expect(page.locator(".line-text")).to_have_text("The weather is lovely this morning.")
    page.goto("/#/dead-letters")
    expect(page.get_by_role("heading", level=1)).to_have_text("Dead letters")
    expect(page.locator(".skeleton")).to_have_count(0)
    expect(letter).to_have_count(0)


def test_a_dead_letter_can_be_discarded(page: Page, api: ApiClient, site: Site) -> None:
    job_id = api.finished(api.submit(f"{site.url}/nothing-{page.context.browser.version}"))
    page.goto("/#/dead-letters")
    letter = page.locator(".letter").filter(has=page.locator(f'[href="#/job/{job_id}"]'))

    letter.get_by_role("button", name="Discard").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard").click()

    expect(page.get_by_text("Discarded.")).to_be_visible()
    expect(letter).to_have_count(0)


def test_a_deleted_job_is_gone(page: Page, api: ApiClient, site: Site) -> None:
    job_id = api.finished(api.submit(f"{site.url}/files/short.ogg"))
    page.goto(f"/#/job/{job_id}")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()

    expect(page).to_have_url(re.compile("#/jobs$"))
    expect(page.get_by_text("Deleted.")).to_be_visible()
    expect(page.locator(f'[href="#/job/{job_id}"]')).to_have_count(0)
    page.goto(f"/#/job/{job_id}")
    expect(page.get_by_role("heading", name="There is no such job")).to_be_visible()


def test_a_deletion_can_be_declined(page: Page, finished_job: str, api: ApiClient) -> None:
    page.goto(f"/#/job/{finished_job}")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="No, keep it").click()

    expect(page.get_by_role("dialog")).to_have_count(0)
    assert api.job(finished_job)["state"] == "succeeded"


def test_the_health_of_every_component_is_one_click_away(page: Page) -> None:
    page.goto("/")
    lamp = page.get_by_role("button", name="Health of the mesh: All well")
    lamp.click()

    panel = page.get_by_role("region", name="Health of the mesh")
    for part in ("gateway", "orchestrator", "downloader", "normalizer", "transcriber", "nats"):
        expect(panel.get_by_text(part, exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(lamp).to_be_focused()
