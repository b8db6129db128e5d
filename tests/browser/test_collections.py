"""Collections: created, followed through a reload, with a thousand members."""

import re

from playwright.sync_api import Page, Route, expect

from tests.browser.fake_collection import ID, collection, events, member
from tests.support.site import Site

MANY = 1000
HOSTILE = "<img src=x onerror=window.hit=1> \u202eturned"
WATCH = """() => {
  window.touched = new Set();
  new MutationObserver((changes) => {
    for (const { target } of changes) {
      const element = target.nodeType === 1 ? target : target.parentElement;
      window.touched.add(element.closest(".member")?.querySelector(".member-number").textContent);
    }
  }).observe(document.querySelector(".members"), {
    subtree: true, childList: true, characterData: true, attributes: true,
  });
}"""


def test_a_collection_is_created_and_followed_through_a_reload(page: Page, held_site: Site) -> None:
    page.goto("/#/collect")
    paths = ("files/short.ogg", "files/not-there.ogg", "held/sample.ogg")
    page.get_by_label("Addresses", exact=True).fill(
        "\n".join(f"{held_site.url}/{one}" for one in paths)
    )
    page.get_by_label("Title").fill("Three of them")
    page.get_by_role("button", name="Collect").click()

    expect(page).to_have_url(re.compile(r"#/collection/[0-9a-f-]{36}$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Three of them")
    tiles = page.locator(".member")
    expect(tiles.nth(0)).to_contain_text("Done")
    expect(tiles.nth(1)).to_contain_text("The site has nothing at this address.")
    expect(tiles.nth(2)).to_contain_text("Running")
    expect(page.locator(".whole")).to_have_text("1 of 3")

    page.reload()

    expect(tiles.nth(2)).to_contain_text("Running")
    expect(tiles).to_have_count(3)
    held_site.release.set()
    expect(tiles.nth(2)).to_contain_text("Done")
    expect(page.locator(".outcome")).to_contain_text("Partial: something is missing.")
    expect(page.locator(".whole")).to_have_text("2 of 3")
    expect(page.get_by_role("button", name="Delete")).to_be_visible()
    page.locator(".tallies").get_by_text("Failed").click()
    expect(page.locator(".member:visible")).to_have_count(1)
    page.locator(".tallies").get_by_text("All").click()
    tiles.nth(0).get_by_role("link").click()
    expect(page.locator(".line-text")).to_have_text("The weather is lovely this morning.")


def test_only_changed_members_of_a_thousand_are_rendered_again(page: Page) -> None:
    members = [member(number, "pending") for number in range(1, MANY + 1)]
    begun = collection(members, state="running", settled=False, can_cancel=True)
    done = collection(members, state="complete")
    changed = member(500, "completed", title=HOSTILE)
    # Sent in reverse order of their numbers.
    sent = [("member", event_id, one) for event_id, one in enumerate(reversed(members), 1)]
    responses = [events(("collection", 0, begun), *sent)]

    def stream_events(route: Route) -> None:
        body = responses.pop(0) if responses else events()
        route.fulfill(body=body, content_type="text/event-stream")

    page.route(f"**/collections/{ID}?*", lambda route: route.fulfill(json=begun))
    page.route(f"**/collections/{ID}/events*", stream_events)
    page.goto(f"/#/collection/{ID}")
    expect(page.locator(".member")).to_have_count(MANY)
    assert page.locator(".member-number").all_text_contents() == [
        str(number) for number in range(1, MANY + 1)
    ]
    page.evaluate(WATCH)

    responses.append(events(("member", MANY + 1, changed), ("finished", MANY + 2, done)))

    expect(page.locator(".outcome")).to_contain_text("Complete")
    expect(page.locator(".member").nth(499)).to_contain_text("<img src=x onerror=window.hit=1>")
    expect(page.locator(".whole")).to_have_text("1 of 1,000")
    assert page.evaluate("[...window.touched]") == ["500"]
    assert page.evaluate("window.hit") is None


def test_a_channel_is_requested_with_its_period_and_time_limit(page: Page) -> None:
    page.route("**/collections", lambda route: route.fulfill(status=503, json={"detail": "away"}))
    page.goto("/")
    page.get_by_role("link", name="Make a collection").click()
    page.get_by_text("Playlists and channels").click()
    field = page.get_by_label("Addresses", exact=True)
    field.fill("not an address")
    page.get_by_role("button", name="Collect").click()
    expect(page.get_by_role("alert")).to_have_text("This is not a web address: not an address")
    expect(field).to_be_focused()

    field.fill("example.test/channel\nytsearch5:weather")
    page.get_by_label("Published from").fill("2026-02-01")
    page.get_by_label("Published until").fill("2026-02-28")
    page.get_by_label("At most so many").fill("40")
    page.get_by_label("Time limit in minutes").fill("90")
    with page.expect_request("**/collections") as request:
        page.get_by_role("button", name="Collect").click()

    body = request.value.post_data_json
    assert body.pop("request_id")
    assert body == {
        "sources": ["https://example.test/channel", "ytsearch5:weather"],
        "from_date": "2026-02-01",
        "to_date": "2026-02-28",
        "max_members": 40,
        "timeout": 5400,
    }
    expect(page.get_by_role("alert")).to_have_text("away")
