"""Which entries of a list match the query, for sites that no local site can stand for."""

from datetime import datetime, timedelta

import pytest
from yt_dlp.extractor import get_info_extractor

from downloader.child.guard import Guard
from downloader.child.resolve import ResolveTask
from downloader.child.ytdlp_client import Refusal
from downloader.commands import ClientOptions, ResolveCommand
from mesh.errors import InvalidRequestError
from mesh.period import Days, wanted_days


def test_an_approximate_day_matches_a_period_it_may_fall_in() -> None:
    october = wanted_days("", "", "2025-10")

    assert october == Days("2025-10-01", "2025-10-31")
    assert october.may_hold("2025-11-20", timedelta(days=31))
    assert not october.may_hold("2025-12-20", timedelta(days=31))
    assert not october.may_hold("2025-09-20", timedelta(days=31))
    assert october.may_hold("", timedelta(0))


def test_february_of_a_leap_year_has_its_last_day() -> None:
    assert wanted_days("", "", "2024-02").last == "2024-02-29"


def test_the_year_zero_is_refused() -> None:
    with pytest.raises(InvalidRequestError):
        wanted_days("", "", "0000-01")


class Channel:
    """Stands for YouTube, which tests cannot reach: what each video's own page says."""

    def __init__(self, **days: str | Exception) -> None:
        self._days = days
        self.asked: list[str] = []

    def extract_info(self, url: str, **_: object) -> dict[str, object]:
        name = url.rpartition("=")[2]
        self.asked.append(name)
        day = self._days[name]
        if isinstance(day, Exception):
            raise day
        return {"upload_date": day, "title": f"the true {name}"}


def in_october(channel: Channel, name: str, guess: str) -> dict[str, object] | None:
    client_options = ClientOptions(1)
    command = ResolveCommand("", client_options, 9, 9, "2025-10-01", "2025-10-31")
    noon = datetime.fromisoformat(f"{guess}T12:00:00+00:00").timestamp()
    entry = {"_type": "url", "ie_key": "Youtube", "timestamp": noon, "title": "as listed"}
    task = ResolveTask(command, Guard(), print)
    return task.in_period(channel, f"https://www.youtube.com/watch?v={name}", entry)  # type: ignore[arg-type]


def test_an_approximate_day_is_looked_up_on_the_videos_own_page() -> None:
    channel = Channel(a="20251015", b="20250901")

    wanted = in_october(channel, "a", "2025-11-10")
    assert wanted is not None
    assert (wanted["upload_date"], wanted["title"]) == ("20251015", "the true a")
    assert in_october(channel, "b", "2025-10-10") is None
    assert channel.asked == ["a", "b"]


def test_an_approximate_day_outside_the_period_costs_no_request() -> None:
    channel = Channel()

    assert in_october(channel, "c", "2025-09-10") is None
    assert channel.asked == []


def test_a_deleted_video_is_skipped_but_a_failing_site_is_an_error() -> None:
    channel = Channel(gone=ValueError("Video unavailable"), busy=ValueError("HTTP Error 503: x"))

    assert in_october(channel, "gone", "2025-10-10") is None
    with pytest.raises(ValueError, match="503"):
        in_october(channel, "busy", "2025-10-10")


class Tabs:
    """Stands for a channel of YouTube: a page of tabs, each of them a list."""

    def __init__(self, pages: dict[str, dict[str, object]]) -> None:
        self._pages = pages

    def extract_info(self, url: str, **_: object) -> dict[str, object]:
        return self._pages[url]

    def get_info_extractor(self, key: str) -> object:
        return get_info_extractor(key)()


def link(url: str, key: str) -> dict[str, object]:
    return {"_type": "url", "url": url, "ie_key": key}


def test_a_channel_becomes_the_videos_of_its_tabs_each_once() -> None:
    home, watch = "https://www.youtube.com/@talks", "https://www.youtube.com/watch?v="
    pages: dict[str, dict[str, object]] = {
        home: {
            "_type": "playlist",
            "extractor": "youtube:tab",
            "entries": [
                link(f"{home}/videos", "YoutubeTab"),
                link(f"{home}/streams", "YoutubeTab"),
            ],
        },
        f"{home}/videos": {
            "_type": "playlist",
            "entries": [
                link(f"{watch}aaaaaaaaaaa", "Youtube"),
                link("bbbbbbbbbbb", "Youtube"),
                None,
            ],
        },
        f"{home}/streams": {
            "_type": "playlist",
            "entries": iter(
                [
                    link(f"{watch}aaaaaaaaaaa", "Youtube"),
                    {**link(f"{watch}ccccccccccc", "Youtube"), "live_status": "is_live"},
                    link(f"{watch}ddddddddddd", "Youtube"),
                ]
            ),
        },
    }
    task = ResolveTask(ResolveCommand(home, ClientOptions(1), 9, 99), Guard(), print)

    found = [url.rpartition("=")[2] for url, _ in task.recordings(Tabs(pages))]  # type: ignore[arg-type]

    assert found == ["aaaaaaaaaaa", "bbbbbbbbbbb", "ddddddddddd"]


def test_lists_nested_without_end_are_refused() -> None:
    home = "https://www.youtube.com/@talks"
    loop: dict[str, object] = {"_type": "playlist", "entries": [link(home, "YoutubeTab")]}
    task = ResolveTask(ResolveCommand(home, ClientOptions(1), 9, 99), Guard(), print)

    with pytest.raises(Refusal):
        list(task.recordings(Tabs({home: loop})))  # type: ignore[arg-type]
