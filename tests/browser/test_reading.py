"""A finished job: playback, search, editing, downloads."""

import json
from datetime import timedelta
from pathlib import Path

import pylrc
import pytest
import srt
import webvtt
from playwright.sync_api import Page, expect

ALL_FORMATS = ("SRT", "VTT", "TXT", "JSON", "TSV", "LRC")
HOSTILE = 'He said <b>"5 > 4 & 3"</b>\ttwice [00:01] \\N'


@pytest.fixture
def job_page(page: Page, finished_job: str) -> Page:
    page.goto(f"/#/job/{finished_job}")
    expect(page.locator(".line")).to_have_count(6)
    return page


def position(page: Page) -> float:
    return float(page.evaluate("document.querySelector('audio').currentTime"))


def downloaded(page: Page, format_: str) -> tuple[str, str]:
    """Downloads the captions; returns file name and content."""
    with page.expect_download() as started:
        page.get_by_role("link", name=f"Download as {format_}").click()
    return started.value.suggested_filename, Path(started.value.path()).read_text("utf-8")


def edit(page: Page, line: int, text: str) -> None:
    row = page.locator(".line").nth(line)
    row.hover()
    row.get_by_role("button", name="Edit the line").click()
    row.get_by_role("textbox").fill(text)
    row.get_by_role("textbox").press("Enter")
    expect(row.get_by_text("edited", exact=True)).to_be_visible()


def test_clicking_a_line_plays_from_there_and_highlights_it(job_page: Page) -> None:
    line = job_page.locator(".line").nth(3)
    line.locator(".line-text").click()

    expect(line).to_have_attribute("aria-current", "true")
    expect(job_page.locator(".screen-caption")).to_contain_text("If a machine is switched off")
    # Not wait_for_function: it polls with eval, which the page's CSP blocks.
    while job_page.evaluate("document.querySelector('audio').currentTime") <= 12.5:
        job_page.wait_for_timeout(50)
    job_page.get_by_role("button", name="Pause").click()
    expect(job_page.get_by_role("button", name="Play", exact=True)).to_be_visible()


def test_the_highlighted_line_follows_the_playback(job_page: Page) -> None:
    job_page.get_by_label("Speed").select_option("2")
    job_page.locator(".moment").nth(0).click()

    expect(job_page.locator(".line").nth(1)).to_have_attribute("aria-current", "true")
    expect(job_page.locator(".line[aria-current]")).to_have_count(1)


def test_keyboard_shortcuts_play_seek_and_search(job_page: Page) -> None:
    job_page.locator("h1").focus()
    job_page.keyboard.press("ArrowRight")
    job_page.keyboard.press("ArrowRight")
    assert position(job_page) == pytest.approx(10, abs=0.2)
    job_page.keyboard.press("ArrowDown")
    expect(job_page.locator(".line").nth(3)).to_have_attribute("aria-current", "true")
    job_page.keyboard.press(" ")
    expect(job_page.get_by_role("button", name="Pause")).to_be_visible()
    job_page.keyboard.press(" ")
    job_page.keyboard.press("/")
    expect(job_page.get_by_label("Search in the text")).to_be_focused()
    job_page.keyboard.press("Escape")
    job_page.keyboard.press("?")
    expect(job_page.get_by_role("dialog")).to_contain_text("Keyboard shortcuts")


def test_search_ignores_case_and_accents_and_steps_through_matches(job_page: Page) -> None:
    field = job_page.get_by_label("Search in the text")
    field.fill("VIDÉO")

    expect(job_page.get_by_role("status").filter(has_text="1 of 3")).to_be_visible()
    expect(job_page.locator("mark")).to_have_text(["video", "video", "video"])
    field.press("Enter")
    expect(job_page.get_by_text("2 of 3")).to_be_visible()
    expect(job_page.locator("mark.current")).to_have_count(1)
    field.press("Shift+Enter")
    field.press("Shift+Enter")
    expect(job_page.get_by_text("3 of 3")).to_be_visible()
    field.fill("nowhere")
    expect(job_page.get_by_text("Not found")).to_be_visible()


def test_edits_survive_a_reload_and_are_in_the_downloaded_file(job_page: Page) -> None:
    original = job_page.locator(".line-text").nth(1).text_content()
    edit(job_page, 0, "Good evening.")
    job_page.reload()
    expect(job_page.locator(".line-text").first).to_have_text("Good evening.")

    name, content = downloaded(job_page, "SRT")

    cues = list(srt.parse(content))
    assert name == "A word of welcome.srt"
    assert [" ".join(cue.content.split()) for cue in cues[:2]] == ["Good evening.", original]
    assert cues[1].start == timedelta(seconds=2.656)
    assert [cue.index for cue in cues] == [1, 2, 3, 4, 5, 6]


def test_every_format_carries_an_edit_safely(job_page: Page) -> None:
    edit(job_page, 2, HOSTILE)

    files = {format_: downloaded(job_page, format_)[1] for format_ in ALL_FORMATS}

    flat = 'He said <b>"5 > 4 & 3"</b> twice [00:01] \\N'
    third = list(srt.parse(files["SRT"]))[2]
    assert third.content == 'He said ‹b›"5 › 4 & 3"‹/b› twice [00:01] /N'  # noqa: RUF001
    cue = webvtt.from_string(files["VTT"]).captions[2]
    assert "&lt;b&gt;" in files["VTT"]
    assert cue.start == "00:00:07.656"
    assert flat in files["TXT"]
    document = json.loads(files["JSON"])
    assert document["cues"][2]["text"] == flat
    assert (document["edited_cues"], document["language"]) == ([2], "en")
    start, end, text = files["TSV"].splitlines()[3].split("\t")
    assert int(start) == 7656 < int(end)
    assert text == '"' + flat.replace('"', '""') + '"'
    lyrics = pylrc.parse(files["LRC"])
    assert [line.text for line in lyrics][2] == flat.replace("[00:01]", "(00:01)")


def test_the_unedited_captions_stay_available(job_page: Page) -> None:
    edit(job_page, 0, "Good evening.")
    job_page.get_by_text("As heard").click()

    _, content = downloaded(job_page, "SRT")

    assert next(srt.parse(content)).content == "Hello, and welcome."


def test_unedited_files_come_from_the_server_in_every_format(job_page: Page) -> None:
    for format_ in ALL_FORMATS:
        name, content = downloaded(job_page, format_)
        assert name.endswith(f".{format_.lower()}")
        assert "Hello, and welcome." in content


def test_edits_can_be_reverted_one_by_one_and_all_at_once(job_page: Page) -> None:
    edit(job_page, 0, "One")
    edit(job_page, 1, "Two")
    expect(job_page.get_by_text("2 lines edited, kept in this browser")).to_be_visible()

    job_page.get_by_role("button", name="Take back the edit at 0:00").click()
    expect(job_page.get_by_text("One line edited, kept in this browser")).to_be_visible()
    expect(job_page.locator(".line-text").first).to_have_text("Hello, and welcome.")

    job_page.get_by_role("button", name="Discard edits").click()
    job_page.get_by_role("dialog").get_by_role("button", name="Discard edits").click()
    expect(job_page.locator(".edits")).to_be_hidden()


def test_escape_discards_an_edit(job_page: Page) -> None:
    row = job_page.locator(".line").first
    row.dblclick()
    row.get_by_role("textbox").fill("Something else")
    row.get_by_role("textbox").press("Escape")

    expect(row.locator(".line-text")).to_have_text("Hello, and welcome.")
    expect(job_page.locator(".edits")).to_be_hidden()
