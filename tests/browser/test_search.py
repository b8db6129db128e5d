"""The search in all captions opens the player at the moment a word is said."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.api_client import ApiClient
from tests.browser.conftest import opened_context, page_errors, serious_violations
from tests.conftest import RealMesh
from tests.support.site import Site

WORD = "nothing"
"""Said in the middle of a sentence of the recording."""


@pytest.fixture(scope="session")
def timed_job(api: ApiClient, site: Site) -> str:
    """A job whose words have times."""
    job = api.finished(api.submit(f"{site.url}/files/sample.ogg", word_timestamps=True))
    api.found(WORD, job)
    return job


@pytest.fixture
def search_page(page: Page, timed_job: str) -> Page:
    page.goto("/#/search")
    return page


def said_at(api: ApiClient, job: str, word: str) -> float:
    """When the transcriber heard a word."""
    segments = api.job(job)["transcription_segments"]
    return next(
        float(one["start"])
        for segment in segments
        for one in segment["words"]
        if word in one["text"].casefold()
    )


def position(page: Page) -> float:
    return float(page.locator("audio").evaluate("audio => audio.currentTime"))


def test_a_word_is_typed_a_hit_clicked_and_the_player_stands_at_the_word(
    search_page: Page, api: ApiClient, timed_job: str
) -> None:
    search_page.get_by_role("searchbox").fill(f"{WORD.upper()} machine")
    hit = search_page.locator(f".hit:has(a[href*='{timed_job}'])")
    expect(hit.locator("mark").first).to_be_visible()
    assert {WORD, "machine"} <= {one.casefold() for one in hit.locator("mark").all_inner_texts()}

    search_page.get_by_role("searchbox").fill(WORD)
    expect(hit.locator("mark")).to_have_text([WORD])
    hit.get_by_role("link").click()

    expect(search_page.locator("[aria-current=true]")).to_contain_text(WORD)
    assert abs(position(search_page) - said_at(api, timed_job, WORD)) <= 0.5


def test_the_address_of_a_hit_opens_the_player_there_and_back_leads_to_the_hits(
    search_page: Page, api: ApiClient, timed_job: str
) -> None:
    hit = api.found(WORD, timed_job)
    search_page.get_by_role("searchbox").fill(WORD)
    expect(search_page.locator(".hit mark").first).to_be_visible()

    search_page.goto(hit["url"])
    expect(search_page.locator("[aria-current=true]")).to_contain_text(WORD)
    assert abs(position(search_page) - said_at(api, timed_job, WORD)) <= 0.5
    search_page.go_back()

    expect(search_page.get_by_role("searchbox")).to_have_value(WORD)
    expect(search_page.locator(".hit mark").first).to_have_text(WORD)


def test_it_is_used_with_the_keyboard_alone(search_page: Page, timed_job: str) -> None:
    search_page.goto("/#/jobs")
    expect(search_page.get_by_role("heading", level=1)).to_have_text("Jobs")
    search_page.keyboard.press("s")
    expect(search_page.get_by_role("searchbox")).to_be_focused()
    search_page.keyboard.type(WORD)
    search_page.keyboard.press("Enter")
    expect(search_page.locator(".hit mark").first).to_be_visible()
    search_page.keyboard.press("Tab")
    expect(search_page.locator(".hit a").first).to_be_focused()
    search_page.keyboard.press("Enter")

    expect(search_page.locator(".player")).to_be_visible()


def test_what_is_not_there_is_said(search_page: Page) -> None:
    search_page.get_by_role("searchbox").fill("zzzqqq")
    expect(search_page.get_by_role("heading", name="Nothing found")).to_be_visible()
    search_page.get_by_role("searchbox").fill("-")
    expect(search_page.get_by_role("heading", name="Nothing found")).to_have_count(0)


@pytest.fixture
def looks(browser: Browser, real_mesh: RealMesh, timed_job: str) -> Iterator[Page]:
    with opened_context(browser, real_mesh, viewport={"width": 360, "height": 740}) as context:
        opened = context.new_page()
        errors = page_errors(opened)
        yield opened
    assert errors == []


def test_axe_finds_nothing_and_a_phone_does_not_scroll_sideways(looks: Page) -> None:
    looks.goto(f"/#/search?q={WORD}")
    expect(looks.locator(".hit mark").first).to_be_visible()

    assert serious_violations(Axe(), looks) == []
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not looks.evaluate(wide)


def test_in_portuguese(browser: Browser, real_mesh: RealMesh, timed_job: str) -> None:
    with opened_context(browser, real_mesh, locale="pt-BR") as context:
        page = context.new_page()
        page.goto(f"/#/search?q={WORD}")
        expect(page.get_by_role("heading", level=1)).to_have_text("Busca")
        expect(page.locator(".hit mark").first).to_be_visible()
