"""Fixtures: a real browser, a real mesh, a site with recordings, and jobs."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from imageio_ffmpeg import get_ffmpeg_exe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.api_client import ApiClient
from tests.conftest import DATA, RealMesh, guarded_mesh
from tests.support.site import Site, serving

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Needed as root in a container; no background traffic of the browser itself.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
]
TIMEOUT_MS = 20_000
SERIOUS = ("serious", "critical")
WELCOME = "A word of welcome.ogg"
LONGER = "An introduction to captions.mp4"
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 860}, "locale": "en-GB"}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=TIMEOUT_MS)
    path = os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def real_mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesh]:
    """With a login, as users run it; tests/browser/test_open.py has one without."""
    with guarded_mesh(tmp_path_factory.mktemp("mesh")) as running:
        yield running


@contextmanager
def opened_context(browser: Browser, mesh: RealMesh, **options: Any) -> Iterator[BrowserContext]:
    """A new browser context for the page of a mesh, logged in if the mesh has a login."""
    with browser.new_context(**(DESKTOP | options), base_url=mesh.http) as context:
        if mesh.token:
            assert context.request.post("/login", form={"token": mesh.token}).ok
        yield context


@pytest.fixture
def page(browser: Browser, real_mesh: RealMesh) -> Iterator[Page]:
    """A new browser context; script errors and CSP violations fail the test."""
    with opened_context(browser, real_mesh) as context:
        opened = context.new_page()
        errors = page_errors(opened)
        yield opened
    assert errors == []


def page_errors(page: Page) -> list[str]:
    """Collects script errors and violations of the content security policy."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console",
        lambda message: errors.append(message.text) if "Content Security" in message.text else None,
    )
    page.set_default_timeout(TIMEOUT_MS)
    return errors


ARRIVED = """() => Promise.allSettled(
    document.getAnimations()
        .filter((one) => Number.isFinite(one.effect.getComputedTiming().endTime))
        .map((one) => one.finished))"""
"""Waits for animations that end: a message that fades in has too little contrast until then."""


def serious_violations(axe: Axe, page: Page) -> list[tuple[str, list[str]]]:
    """What axe finds in the current view, of some weight: the rule, and the elements."""
    page.evaluate(ARRIVED)
    return [
        (one["id"], [node["html"] for node in one["nodes"]])
        for one in axe.run(page).response["violations"]
        if one["impact"] in SERIOUS
    ]


@pytest.fixture(scope="session")
def api(real_mesh: RealMesh) -> ApiClient:
    return ApiClient(real_mesh.http, real_mesh.token)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The test recordings, and a longer one whose header has its duration."""
    folder = tmp_path_factory.mktemp("site")
    for recording in DATA.glob("*.ogg"):
        shutil.copy(recording, folder)
    shutil.copy(DATA / "sample.ogg", folder / WELCOME)
    source = ["-stream_loop", "1", "-i", str(DATA / "sample.ogg")]
    target = ["-c:a", "aac", "-b:a", "64k", "-movflags", "+faststart", str(folder / LONGER)]
    command = [get_ffmpeg_exe(), "-v", "error", "-nostdin", *source, *target]
    subprocess.run(command, check=True, timeout=60)
    with serving(folder) as running:
        yield running


@pytest.fixture(scope="session")
def finished_job(api: ApiClient, site: Site) -> str:
    """A job with six lines of captions and stored audio."""
    return api.finished(api.submit(f"{site.url}/files/{quote(WELCOME)}"))


@pytest.fixture(scope="session")
def failed_job(api: ApiClient, site: Site) -> str:
    """A failed job: its URL is a page without a recording."""
    address = site.page("/article", b"<html><title>News</title>words</html>", "text/html")
    return api.finished(api.submit(address))


@pytest.fixture
def held_site(site: Site) -> Iterator[Site]:
    """A site that sends two thirds of the longer recording slowly, the rest once released."""
    site.release.clear()
    yield site
    site.release.set()


@pytest.fixture
def running_job(api: ApiClient, held_site: Site) -> str:
    return api.submit(f"{held_site.url}/slow/{quote(LONGER)}")
