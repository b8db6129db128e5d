"""Submission: by URL, by file selection, by drag and drop."""

import base64
import re

from playwright.sync_api import Page, expect

from tests.conftest import DATA
from tests.support.site import Site

DROP = """([name, text]) => {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const carried = new DataTransfer();
  carried.items.add(new File([bytes], name, { type: "audio/ogg" }));
  const zone = document.querySelector(".zone");
  const how = { dataTransfer: carried, bubbles: true, cancelable: true };
  for (const kind of ["dragenter", "dragover", "drop"]) {
    zone.dispatchEvent(new DragEvent(kind, how));
  }
}"""


def test_a_url_becomes_captions(page: Page, site: Site) -> None:
    # A new URL: a cached job ends at once, without live updates.
    address = site.page("/new/short.ogg", (DATA / "short.ogg").read_bytes(), "audio/ogg")
    page.goto("/")
    page.get_by_label("Address of a video or recording").fill(address)
    page.get_by_role("button", name="Make captions").click()

    expect(page).to_have_url(re.compile(r"#/job/[0-9a-f-]{36}$"))
    expect(page.get_by_text("Captions are ready.")).to_be_visible()
    expect(page.locator(".line-text")).to_have_text("The weather is lovely this morning.")
    expect(page.get_by_role("heading", level=1)).to_have_text("short")


def test_a_chosen_file_becomes_captions_under_its_name(page: Page) -> None:
    page.goto("/")
    page.locator("input[type=file]").set_input_files(DATA / "portuguese.ogg")

    expect(page.get_by_role("heading", level=1)).to_have_text("portuguese.ogg")
    expect(page.locator(".line-text").first).to_contain_text("Hoje o tempo")
    page.get_by_text("Details").click()
    expect(page.get_by_text(re.compile(r"^Portuguese, \d+% sure$"))).to_be_visible()


def test_a_file_dropped_anywhere_becomes_captions(page: Page) -> None:
    page.goto("/")
    expect(page.locator(".zone")).to_be_visible()
    content = base64.b64encode((DATA / "short.ogg").read_bytes()).decode()
    page.evaluate(DROP, ["dropped.ogg", content])

    expect(page.get_by_role("heading", level=1)).to_have_text("dropped.ogg")
    expect(page.locator(".line-text")).to_have_text("The weather is lovely this morning.")


def test_an_invalid_url_is_rejected_before_it_is_sent(page: Page) -> None:
    page.goto("/")
    field = page.get_by_label("Address of a video or recording")
    field.fill("not an address")
    field.press("Enter")

    expect(page.get_by_role("alert")).to_contain_text("not a web address")
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")


def test_options_reach_the_job(page: Page, site: Site) -> None:
    page.goto("/")
    page.get_by_text("Options").click()
    page.get_by_label("Spoken language").select_option("en")
    page.get_by_label("A time for each word").check()
    page.get_by_label("Take noise out of the kept audio").uncheck()
    with page.expect_request("**/pipeline") as request:
        page.get_by_label("Address of a video or recording").fill(f"{site.url}/files/short.ogg")
        page.get_by_role("button", name="Make captions").click()

    body = request.value.post_data_json
    assert body["request_id"]
    assert (body["language"], body["word_timestamps"], body["remove_noise"]) == ("en", True, False)
    expect(page.locator(".line-text")).to_have_text("The weather is lovely this morning.")
