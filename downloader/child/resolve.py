"""Resolve task: lists the recordings behind one address as they are found, and fetches none."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from yt_dlp.extractor import gen_extractor_classes
from yt_dlp.utils import unsmuggle_url

from downloader import metadata
from downloader.child.guard import Guard
from downloader.child.task import ChildTask, Send
from downloader.child.ytdlp_client import Refusal, YtDlpClient
from downloader.commands import ResolveCommand
from downloader.reasons import Failure, reason_for
from mesh.job_options import MAX_URL_BYTES
from mesh.period import Days
from mesh.reasons import RETRYABLE, Reason

MAX_DEPTH = 4
"""A channel holds tabs and a tab holds videos; no real list is nested deeper than this."""

LIST_EXTRACTORS = re.compile(
    r"(Tab|Playlist|Channel|User|Series|Season|Show|Album|List|Collection)$"
)
LINKS = ("url", "url_transparent")
NOT_RECORDED_YET = ("is_live", "is_upcoming")

Info = dict[str, Any]


class ResolveTask(ChildTask[ResolveCommand]):
    """Lists the recordings of a playlist, channel, page or search."""

    def __init__(self, command: ResolveCommand, guard: Guard, send: Send) -> None:
        super().__init__(command, guard, send)
        self._days = Days(command.from_date, command.to_date)
        self._seen: set[str] = set()
        self._entries = 0

    def run(self) -> Info:
        """Sends each recording, and returns how many there were."""
        # YouTube's lists hold only approximate dates, and only on request.
        approximate_dates = {"youtubetab": {"approximate_date": [""]}} if self._days else {}
        _refuse_unknown_search(self._command.source_url)
        count = 0
        with self.open_client(YtDlpClient, extractor_args=approximate_dates) as client:
            for source_url, info in self.recordings(client):
                self.send("video", source_url=source_url, media=metadata.to_json(info))
                count += 1
                if count == self._command.max_videos:
                    break
        return {"count": count}

    def recordings(self, client: YtDlpClient) -> Iterator[tuple[str, Info]]:
        """Address and metadata of every recording that matches the query, each once."""
        start = self._command.source_url
        info = _follow(client, {"url": start})
        for source_url, entry in self._walk(client, info, start, MAX_DEPTH):
            if source_url in self._seen or len(source_url.encode()) > MAX_URL_BYTES:
                continue
            self._seen.add(source_url)
            wanted = self.in_period(client, source_url, entry) if self._days else entry
            if wanted is not None and wanted.get("live_status") not in NOT_RECORDED_YET:
                yield source_url, {"webpage_url": source_url, **_known_fields(wanted)}

    def _walk(
        self, client: YtDlpClient, info: Info, page: str, depth: int
    ) -> Iterator[tuple[str, Info]]:
        """Every recording in an extractor's result, nested lists included."""
        if info.get("_type") != "playlist":
            yield page, info
            return
        if not depth:
            raise Refusal(
                Reason.UNSUPPORTED_URL, f"the list is nested more than {MAX_DEPTH} levels deep"
            )
        for entry in info.get("entries") or ():
            self._count_entry()
            if entry is None:
                continue
            entry = {"extractor": info.get("extractor"), **_known_fields(entry)}
            if entry.get("_type") in LINKS and _leads_to_a_list(client, entry):
                inner = unsmuggle_url(entry["url"])[0]
                yield from self._walk(client, _follow(client, entry), inner, depth - 1)
            elif entry.get("_type") == "playlist":
                yield from self._walk(client, entry, page, depth - 1)
            elif address := _address(entry, page):
                yield address, entry

    def _count_entry(self) -> None:
        self._entries += 1
        if self._entries > self._command.max_entries:
            most = self._command.max_entries
            raise Refusal(Reason.TOO_LARGE, f"the list has more than the {most} entries allowed")

    def in_period(self, client: YtDlpClient, source_url: str, entry: Info) -> Info | None:
        """The entry if it was published on a requested day; looks the day up if the list does not
        hold it exactly."""
        day, approximate = metadata.day_of(entry), _has_approximate_day(entry)
        if approximate and not self._days.may_hold(day, _uncertainty(day)):
            return None
        if approximate or not day:
            entry = {**entry, **_known_fields(self._look_up(client, source_url, entry))}
            day = metadata.day_of(entry)
        return entry if day in self._days else None

    def _look_up(self, client: YtDlpClient, source_url: str, entry: Info) -> Info:
        """Metadata from the recording's own page; without a day if it is permanently gone."""
        try:
            return _follow(client, {"url": source_url, "ie_key": entry.get("ie_key")})
        except Exception as error:
            exceptions = (type(error).__name__, "ExtractorError")
            if reason_for(Failure(str(error), exceptions)) in RETRYABLE:
                raise
            return {"upload_date": None, "timestamp": None, "direct": True}


def _refuse_unknown_search(source_url: str) -> None:
    if source_url.startswith(("http://", "https://")):
        return
    for extractor in gen_extractor_classes():
        if extractor.suitable(source_url) and extractor.ie_key() != "Generic":
            return
    raise Refusal(Reason.UNSUPPORTED_URL, "yt-dlp knows no search of this name")


def _follow(client: YtDlpClient, link: Info) -> Info:
    """The extractor's result for the address, after following its links to other pages."""
    for _ in range(MAX_DEPTH):
        info: Info = client.extract_info(
            link["url"], ie_key=link.get("ie_key"), download=False, process=False
        )
        if info.get("_type") not in LINKS:
            return info
        link = info
    raise Refusal(
        Reason.UNSUPPORTED_URL, f"the address leads through more than {MAX_DEPTH} other pages"
    )


def _leads_to_a_list(client: YtDlpClient, entry: Info) -> bool:
    """Most extractors declare what they return; a tenth return both, and the name decides."""
    if not (key := entry.get("ie_key")):
        return False
    is_single = client.get_info_extractor(key).is_single_video(entry["url"])
    return not is_single if is_single is not None else LIST_EXTRACTORS.search(key) is not None


def _address(entry: Info, page: str) -> str:
    """The address of this recording alone; empty if it has none."""
    if entry.get("_type") in LINKS:
        return _absolute_url(unsmuggle_url(entry["url"])[0], entry)
    own_page = entry.get("webpage_url")
    if own_page and own_page != page:
        return str(own_page)
    formats = entry.get("formats") or [entry]
    return str(formats[-1].get("url") or "")


def _absolute_url(url: str, entry: Info) -> str:
    if url.startswith(("http://", "https://")):
        return url
    if entry.get("ie_key") == "Youtube":  # its lists sometimes hold only the video id
        return f"https://www.youtube.com/watch?v={url}"
    return str(entry.get("webpage_url") or "")


def _known_fields(info: Info) -> Info:
    """The fields that have a value; of a link also its id and extractor."""
    known = {name: value for name, value in info.items() if value is not None}
    if info.get("_type") in LINKS:
        identifier = unsmuggle_url(info["url"], {})[1].get("force_videoid")
        known.setdefault("id", identifier)
        known.setdefault("extractor", str(info.get("ie_key") or "generic").lower())
    return known


def _has_approximate_day(entry: Info) -> bool:
    return entry.get("_type") in LINKS and str(entry.get("ie_key")).startswith("Youtube")


def _uncertainty(day: str) -> timedelta:
    """How far off an approximate day may be: "3 months ago" may be nearly four."""
    age = metadata.age_of(day)
    for unit in (timedelta(days=366), timedelta(days=31), timedelta(days=7)):
        if age >= unit * 0.9:
            return unit
    return timedelta(days=1)
