"""The zip of captions, opened by the standard library."""

import io
import zipfile
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.archive import CaptionsZip, numbered
from reports.model import Member, MemberState
from tests.reports.samples import COLLECTION, EMPTY, MEMBERS

DEVICES = {"CON", "PRN", "AUX", "NUL", "COM1", "LPT1"}


def test_files_are_named_by_number_and_title_and_the_readme_lists_the_rest() -> None:
    archive = CaptionsZip(COLLECTION)
    sent = archive.add(MEMBERS[0], b"1\n", "srt")
    archive.skip(MEMBERS[1], "")
    archive.skip(MEMBERS[2], "it has no captions yet")
    sent += archive.add(MEMBERS[3], "Привет".encode(), "srt")
    with zipfile.ZipFile(io.BytesIO(sent + archive.end())) as opened:
        assert opened.testzip() is None
        first, second, readme = opened.namelist()
        assert first.startswith(
            "001 a_b _c_ _script_alert(1)__script_ [x](javascript_y) __d__ evil"
        )
        assert second == "004 Привет 日本語 हिन्दी 😀.srt"
        assert opened.read(second).decode() == "Привет"
        listing = opened.read(readme).decode()
    assert readme == "README.txt"
    assert "002 Ιδιωτικό\n    failed: VIDEO_PRIVATE in download: Only its <owner> may" in listing
    assert "pending: it has no captions yet" in listing
    assert "2 of 4 recordings completed" in listing


def test_an_empty_collection_is_a_zip_with_a_readme() -> None:
    with zipfile.ZipFile(io.BytesIO(CaptionsZip(EMPTY).end())) as opened:
        assert opened.namelist() == ["README.txt"]


def test_added_captions_are_ready_to_send_at_once() -> None:
    member = Member(1, "", MemberState.COMPLETED)
    archive = CaptionsZip(replace(EMPTY, members=(member,)))
    assert len(archive.add(member, bytes(range(256)) * 400, "txt")) > 256


@given(st.text(max_size=400))
def test_every_title_becomes_a_valid_file_name(title: str) -> None:
    name = numbered(7, 1000, title, "srt")
    assert not set(name) & set('<>:"/\\|?*')
    assert name.isprintable()
    assert len(name.encode()) <= 200
    assert name.startswith("0007")
    assert not name.removesuffix(".srt").endswith((" ", "."))
    assert name.split(".")[0].upper() not in DEVICES


@pytest.mark.parametrize("title", ["../../etc/passwd", "..\\..\\x", "/", ".", "con", "\u202e"])
def test_no_title_is_a_path(title: str) -> None:
    name = numbered(1, 1, title, "vtt")
    assert "/" not in name
    assert "\\" not in name
    assert name.startswith("001")
