"""A real browser before a real mesh."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from imageio_ffmpeg import get_ffmpeg_exe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.caller import Caller
from tests.conftest import DATA, RealMesh
from tests.site import Site, serving

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# What a root's container needs, and no talk of the browser's own with the world.
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
PATIENCE_MS = 20_000
LONGER = "An introduction to captions.mp4"
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 860}, "locale": "en-GB"}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=PATIENCE_MS)
    path = os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, BROWSERS)))
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def page(browser: Browser, real_mesh: RealMesh) -> Iterator[Page]:
    """A fresh visitor; whatever the page itself complains about fails the test."""
    with browser.new_context(**DESKTOP, base_url=real_mesh.http) as context:
        found = context.new_page()
        complaints = listened_to(found)
        yield found
    assert complaints == []


def listened_to(page: Page) -> list[str]:
    """Faults of scripts, and what the content security policy had to stop."""
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda said: complaints.append(said.text) if "Content Security" in said.text else None,
    )
    page.set_default_timeout(PATIENCE_MS)
    return complaints


@pytest.fixture(scope="session")
def caller(real_mesh: RealMesh) -> Caller:
    return Caller(real_mesh.http)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Our recordings, and a longer one that says first how long it is."""
    folder = tmp_path_factory.mktemp("site")
    for recording in DATA.glob("*.ogg"):
        shutil.copy(recording, folder)
    source = ["-stream_loop", "1", "-i", str(DATA / "sample.ogg")]
    target = ["-c:a", "aac", "-b:a", "64k", "-movflags", "+faststart", str(folder / LONGER)]
    command = [get_ffmpeg_exe(), "-v", "error", "-nostdin", *source, *target]
    subprocess.run(command, check=True, timeout=60)
    with serving(folder) as running:
        yield running


@pytest.fixture(scope="session")
def finished_job(caller: Caller, site: Site) -> str:
    """A job with six lines of captions and kept audio."""
    return caller.finished(caller.submit(f"{site.url}/files/sample.ogg"))


@pytest.fixture(scope="session")
def failed_job(caller: Caller, site: Site) -> str:
    """A page without any recording."""
    address = site.page("/article", b"<html><title>News</title>words</html>", "text/html")
    return caller.finished(caller.submit(address))


@pytest.fixture
def held(site: Site) -> Iterator[Site]:
    """It gives two thirds of the longer recording, slowly, and the rest when it is released."""
    site.release.clear()
    yield site
    site.release.set()


@pytest.fixture
def running_job(caller: Caller, held: Site) -> str:
    return caller.submit(f"{held.url}/slow/{LONGER.replace(' ', '%20')}")
