"""Both languages; untrusted text is never interpreted; embedded players load only on a click."""

import json

from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.api_client import ApiClient
from tests.browser.conftest import opened_context, page_errors
from tests.conftest import RealMesh
from tests.support.site import Site

TITLE = "</title><script>window.hit=1</script> \u202egpj.exe & <b>bold</b> \x07"
CAPTION = "<img src=x onerror=window.hit=1> \u202eturned &"
VTT = f"""WEBVTT

00:00:00.500 --> 00:00:02.000
{CAPTION.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}
"""
YOUTUBE = "https://www.youtube.com/watch?v=abcdefghijk"
# Speaks the message protocol of the site's player.
PLAYER = """<script>
addEventListener("message", ({ data, origin }) => {
  const said = JSON.parse(data);
  const answer = (info) =>
    parent.postMessage(JSON.stringify({ event: "infoDelivery", info }), origin);
  if (said.event === "listening") answer({ currentTime: 0, duration: 23.5, playerState: 2 });
  if (said.func === "seekTo") answer({ currentTime: said.args[0] });
  if (said.func === "playVideo") answer({ playerState: 1 });
});
</script>"""


def test_a_brazilian_browser_gets_portuguese(
    browser: Browser, real_mesh: RealMesh, failed_job: str
) -> None:
    with opened_context(browser, real_mesh, locale="pt-BR") as context:
        page = context.new_page()
        errors = page_errors(page)
        page.goto("/")
        expect(page.get_by_role("heading", level=1)).to_have_text("Veja a fala virar texto.")
        expect(page.locator("html")).to_have_attribute("lang", "pt-BR")
        page.goto(f"/#/job/{failed_job}")
        expect(page.locator(".failure")).to_contain_text("Não há nada neste endereço")
        page.get_by_label("Idioma desta página").select_option("en")
        expect(page.locator(".failure")).to_contain_text("There is nothing at this address")
        page.reload()
        expect(page.locator("html")).to_have_attribute("lang", "en")
    assert errors == []


def test_hostile_titles_and_captions_are_shown_as_text(
    page: Page, api: ApiClient, site: Site
) -> None:
    site.page("/hostile.vtt", VTT.encode(), "text/vtt")
    title = TITLE.replace("&", "&amp;").replace("<", "&lt;")
    track = '<track kind="subtitles" srclang="en" src="/hostile.vtt">'
    html = (
        f'<html><meta charset="utf-8"><title>{title}</title><video><source src="/files/short.ogg">'
    )
    address = site.page("/hostile", f"{html}{track}</video></html>".encode(), "text/html")
    policy = {"captions_policy": "prefer_human", "language": "en"}
    job_id = api.finished(api.submit(address, **policy))

    page.goto(f"/#/job/{job_id}")

    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text("<script>window.hit=1</script>")
    expect(page.locator(".line-text")).to_contain_text("<img src=x onerror=window.hit=1>")
    for shown in (
        *heading.all_text_contents(),
        *page.locator(".line-text").all_text_contents(),
        page.title(),
    ):
        assert "\u202e" not in shown
        assert "\x07" not in shown
    page.locator(".line-text").click()
    expect(page.locator(".screen-caption")).to_contain_text("<img src=x")
    page.goto("/#/jobs")
    expect(page.locator(".row-title").first).to_contain_text("<script>")
    assert page.evaluate("window.hit") is None
    assert page.locator("main img, main script").count() == 0


def test_an_embedded_player_is_loaded_only_on_a_click(page: Page, finished_job: str) -> None:
    player_urls: list[str] = []

    def as_from_youtube(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(
            response=answer, json={**answer.json(), "youtube_url": YOUTUBE, "media": None}
        )

    def player(route: Route) -> None:
        player_urls.append(route.request.url)
        route.fulfill(body=PLAYER, content_type="text/html")

    page.route(f"**/jobs/{finished_job}", as_from_youtube)
    page.route("https://www.youtube-nocookie.com/**", player)
    page.goto(f"/#/job/{finished_job}")
    load = page.get_by_role("button", name="Load the video from YouTube")
    expect(load).to_be_visible()
    assert player_urls == []

    load.click()
    expect(page.locator("iframe")).to_be_visible()
    expect(page.locator(".times")).to_have_text("0:00 / 0:23")
    page.locator(".moment").nth(3).click()

    assert "/embed/abcdefghijk?" in player_urls[0]
    expect(page.locator(".line").nth(3)).to_have_attribute("aria-current", "true")
    expect(page.locator(".screen-caption")).to_contain_text("If a machine is switched off")
    page.get_by_role("button", name="Back to the kept audio").click()
    expect(page.locator("iframe")).to_have_count(0)
    assert json.dumps(player_urls).count("embed") == 1
