"""A job under way: bars and words move before it ends, and nothing is lost on the way."""

import re

import psutil
from playwright.sync_api import Page, expect

from tests.browser.caller import Caller
from tests.conftest import RealMesh
from tests.site import Site


def spoken(page: Page) -> list[str]:
    return list(page.locator(".spoken bdi").all_inner_texts())


def test_bars_and_captions_move_before_the_download_has_ended(
    page: Page, running_job: str, caller: Caller, held: Site
) -> None:
    page.goto(f"/#/job/{running_job}")

    expect(page.locator(".spoken").first).to_contain_text("Hello, and welcome.")
    bars = page.get_by_role("progressbar")
    expect(bars).to_have_count(3)
    for bar in bars.all():
        expect(bar).to_have_attribute("aria-valuenow", re.compile(r"^[1-9]\d?$"))
    expect(page.locator(".bar.download .amount")).to_contain_text("kB")
    assert caller.job(running_job)["stages"]["download"]["status"] == "running"
    assert page.title()[0].isdigit()

    held.release.set()

    expect(page.get_by_text("Captions are ready.")).to_be_visible()
    assert_all_is_there(page, caller, running_job)


def assert_all_is_there(page: Page, caller: Caller, job_id: str) -> None:
    """The text on the page is that of the job, from its beginning to its end."""
    expect(page.locator(".line").first).to_be_visible()
    text = " ".join(page.locator(".line-text").all_inner_texts())
    assert text.split() == caller.job(job_id)["transcription_text"].split()


def test_a_reload_in_the_middle_loses_and_repeats_nothing(
    page: Page, running_job: str, caller: Caller, held: Site
) -> None:
    page.goto(f"/#/job/{running_job}")
    expect(page.locator(".spoken").nth(1)).to_be_visible()
    before = spoken(page)

    page.reload()

    expect(page.locator(".spoken").nth(len(before) - 1)).to_be_visible()
    assert spoken(page)[: len(before)] == before
    held.release.set()
    assert_all_is_there(page, caller, running_job)


def test_a_lost_connection_is_said_quietly_and_taken_up_again(
    page: Page, running_job: str, caller: Caller, held: Site, real_mesh: RealMesh
) -> None:
    page.goto(f"/#/job/{running_job}")
    expect(page.locator(".spoken").nth(1)).to_be_visible()
    before = spoken(page)

    the_gateway(real_mesh.pid).kill()  # the supervisor starts another

    expect(page.get_by_text("The live line broke off.")).to_be_visible()
    assert spoken(page)[: len(before)] == before
    expect(page.get_by_text("The live line broke off.")).to_be_hidden()
    held.release.set()
    assert_all_is_there(page, caller, running_job)


def the_gateway(supervisor: int) -> psutil.Process:
    children = psutil.Process(supervisor).children(recursive=True)
    return next(found for found in children if found.cmdline()[-2:] == ["-m", "gateway"])


def test_a_cancelled_job_keeps_what_was_heard(page: Page, running_job: str) -> None:
    page.goto(f"/#/job/{running_job}")
    expect(page.locator(".spoken").first).to_be_visible()
    first = spoken(page)[0]

    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()

    expect(page.get_by_text("Cancelled. What was heard until then is below.")).to_be_visible()
    expect(page.locator(".line-text").first).to_have_text(first)
    expect(page.get_by_role("button", name="Run again")).to_be_visible()
