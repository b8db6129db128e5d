"""A running job: live progress and captions, through reloads and lost connections."""

import re

import psutil
from playwright.sync_api import Page, expect

from tests.browser.api_client import ApiClient
from tests.conftest import RealMesh
from tests.support.processes import command_line
from tests.support.site import Site


def live_lines(page: Page) -> list[str]:
    return list(page.locator(".spoken bdi").all_inner_texts())


def test_progress_and_captions_advance_before_the_download_has_ended(
    page: Page, running_job: str, api: ApiClient, held_site: Site
) -> None:
    page.goto(f"/#/job/{running_job}")

    expect(page.locator(".spoken").first).to_contain_text("Hello, and welcome.")
    bars = page.get_by_role("progressbar")
    expect(bars).to_have_count(3)
    for bar in bars.all():
        expect(bar).to_have_attribute("aria-valuenow", re.compile(r"^[1-9]\d?$"))
    expect(page.locator(".bar.download .amount")).to_contain_text("kB")
    api.runs(running_job, "download")
    assert page.title()[0].isdigit()

    held_site.release.set()

    expect(page.get_by_text("Captions are ready.")).to_be_visible()
    assert_transcript_is_complete(page, api, running_job)


def assert_transcript_is_complete(page: Page, api: ApiClient, job_id: str) -> None:
    """The page shows the whole text of the job."""
    expect(page.locator(".line").first).to_be_visible()
    text = " ".join(page.locator(".line-text").all_text_contents())
    assert text.split() == api.job(job_id)["transcription_text"].split()


def test_a_reload_of_a_running_job_loses_and_repeats_nothing(
    page: Page, running_job: str, api: ApiClient, held_site: Site
) -> None:
    page.goto(f"/#/job/{running_job}")
    expect(page.locator(".spoken").nth(1)).to_be_visible()
    before = live_lines(page)

    page.reload()

    expect(page.locator(".spoken").nth(len(before) - 1)).to_be_visible()
    assert live_lines(page)[: len(before)] == before
    held_site.release.set()
    assert_transcript_is_complete(page, api, running_job)


def test_a_lost_connection_is_shown_and_resumed(
    page: Page, running_job: str, api: ApiClient, held_site: Site, real_mesh: RealMesh
) -> None:
    page.goto(f"/#/job/{running_job}")
    expect(page.locator(".spoken").nth(1)).to_be_visible()
    before = live_lines(page)

    gateway_process(real_mesh.pid).kill()  # the supervisor starts another

    expect(page.get_by_text("The live line broke off.")).to_be_visible()
    assert live_lines(page)[: len(before)] == before
    expect(page.get_by_text("The live line broke off.")).to_be_hidden()
    held_site.release.set()
    assert_transcript_is_complete(page, api, running_job)


def gateway_process(supervisor: int) -> psutil.Process:
    children = psutil.Process(supervisor).children(recursive=True)
    return next(found for found in children if command_line(found)[-2:] == ["-m", "gateway"])


def test_a_cancelled_job_keeps_its_text_so_far(page: Page, running_job: str) -> None:
    page.goto(f"/#/job/{running_job}")
    expect(page.locator(".spoken").first).to_be_visible()
    first = live_lines(page)[0]

    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()

    expect(page.get_by_text("Cancelled. What was heard until then is below.")).to_be_visible()
    expect(page.locator(".line-text").first).to_have_text(first)
    expect(page.get_by_role("button", name="Run again")).to_be_visible()
