"""The recordings behind one address, named as they are found; none of them is fetched."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from yt_dlp.extractor import gen_extractor_classes
from yt_dlp.utils import unsmuggle_url

from downloader import facts
from downloader.errand import Errand, Say
from downloader.guard import Guard
from downloader.order import ListOrder
from downloader.reasons import Failure, reason_for
from downloader.visitor import Refusal, Visitor
from mesh.period import Days
from mesh.reasons import RETRYABLE, Reason

MAX_DEPTH = 4
"""A channel holds tabs, a tab holds videos; nothing honest is deeper than this."""

LISTS = re.compile(r"(Tab|Playlist|Channel|User|Series|Season|Show|Album|List|Collection)$")
LINKS = ("url", "url_transparent")
NOT_RECORDED_YET = ("is_live", "is_upcoming")

Info = dict[str, Any]


class Listing(Errand):
    """One look behind an address."""

    def __init__(self, order: ListOrder, guard: Guard, say: Say) -> None:
        super().__init__(order, guard, say)
        self._order = order
        self._days = Days(order.from_date, order.to_date)
        self._seen: set[str] = set()
        self._entries = 0

    def run(self) -> Info:
        """Says each recording, and returns how many there were."""
        # Days in the lists of YouTube are guesses, and only given to those who ask.
        guesses = {"youtubetab": {"approximate_date": [""]}} if self._days else {}
        _refuse_unknown_search(self._order.source_url)
        count = 0
        with self.visit(Visitor, extractor_args=guesses) as site:
            for source_url, info in self.found(site):
                self.say("video", source_url=source_url, media=facts.describe(info))
                count += 1
                if count == self._order.max_videos:
                    break
        return {"count": count}

    def found(self, site: Visitor) -> Iterator[tuple[str, Info]]:
        """Every recording that is wanted, with its address, as it is found."""
        start = self._order.source_url
        for source_url, entry in self._walk(site, _follow(site, {"url": start}), start, MAX_DEPTH):
            if source_url in self._seen:
                continue
            self._seen.add(source_url)
            wanted = self.in_time(site, source_url, entry) if self._days else entry
            if wanted is not None and wanted.get("live_status") not in NOT_RECORDED_YET:
                yield source_url, {"webpage_url": source_url, **_said(wanted)}

    def _walk(self, site: Visitor, info: Info, page: str, depth: int) -> Iterator[tuple[str, Info]]:
        """Every recording in what an extractor gave, lists in lists included."""
        if info.get("_type") != "playlist":
            yield page, info
            return
        if not depth:
            raise Refusal(Reason.UNSUPPORTED_URL, "the list holds lists that hold lists, and so on")
        for entry in info.get("entries") or ():
            self._count()
            if entry is None:
                continue
            entry = {"extractor": info.get("extractor"), **_said(entry)}
            if entry.get("_type") in LINKS and _leads_to_a_list(site, entry):
                inner = unsmuggle_url(entry["url"])[0]
                yield from self._walk(site, _follow(site, entry), inner, depth - 1)
            elif entry.get("_type") == "playlist":
                yield from self._walk(site, entry, page, depth - 1)
            elif address := _address(entry, page):
                yield address, entry

    def _count(self) -> None:
        self._entries += 1
        if self._entries > self._order.max_entries:
            most = self._order.max_entries
            raise Refusal(Reason.TOO_LARGE, f"the list has more than the {most} entries allowed")

    def in_time(self, site: Visitor, source_url: str, entry: Info) -> Info | None:
        """The entry if it is of a wanted day, which may have to be looked up."""
        day, is_guess = facts.day_of(entry), _guesses_days(entry)
        if is_guess and not self._days.may_hold(day, _vagueness(day)):
            return None
        if is_guess or not day:
            entry = {**entry, **_said(self._looked_at(site, source_url, entry))}
            day = facts.day_of(entry)
        return entry if day in self._days else None

    def _looked_at(self, site: Visitor, source_url: str, entry: Info) -> Info:
        try:
            return _follow(site, {"url": source_url, "ie_key": entry.get("ie_key")})
        except Exception as error:
            kinds = (type(error).__name__, "ExtractorError")
            if reason_for(Failure(str(error), kinds)) in RETRYABLE:
                raise
            return {"upload_date": None, "timestamp": None, "direct": True}


def _refuse_unknown_search(source_url: str) -> None:
    if source_url.startswith(("http://", "https://")):
        return
    for extractor in gen_extractor_classes():
        if extractor.suitable(source_url) and extractor.ie_key() != "Generic":
            return
    raise Refusal(Reason.UNSUPPORTED_URL, "nobody knows this kind of search")


def _follow(site: Visitor, link: Info) -> Info:
    """What an extractor says about the address, and where it points on, until it points no more."""
    for _ in range(MAX_DEPTH):
        found: Info = site.extract_info(
            link["url"], ie_key=link.get("ie_key"), download=False, process=False
        )
        if found.get("_type") not in LINKS:
            return found
        link = found
    raise Refusal(Reason.UNSUPPORTED_URL, "the address leads from page to page")


def _leads_to_a_list(site: Visitor, entry: Info) -> bool:
    """Extractors know what they give, but a tenth of them give both; their names tell."""
    if not (key := entry.get("ie_key")):
        return False
    is_single = site.get_info_extractor(key).is_single_video(entry["url"])
    return not is_single if is_single is not None else LISTS.search(key) is not None


def _address(entry: Info, page: str) -> str:
    """Where this one alone can be had."""
    if entry.get("_type") in LINKS:
        return _whole(unsmuggle_url(entry["url"])[0], entry)
    own_page = entry.get("webpage_url")
    if own_page and own_page != page:
        return str(own_page)
    formats = entry.get("formats") or [entry]
    return str(formats[-1].get("url") or "")


def _whole(url: str, entry: Info) -> str:
    if url.startswith(("http://", "https://")):
        return url
    if entry.get("ie_key") == "Youtube":  # its lists sometimes give the identifier alone
        return f"https://www.youtube.com/watch?v={url}"
    return str(entry.get("webpage_url") or "")


def _said(info: Info) -> Info:
    known = {name: value for name, value in info.items() if value is not None}
    if info.get("_type") in LINKS:
        identifier = unsmuggle_url(info["url"], {})[1].get("force_videoid")
        known.setdefault("id", identifier)
        known.setdefault("extractor", str(info.get("ie_key") or "generic").lower())
    return known


def _guesses_days(entry: Info) -> bool:
    return entry.get("_type") in LINKS and str(entry.get("ie_key")).startswith("Youtube")


def _vagueness(day: str) -> timedelta:
    """ "3 months ago" may be nearly four: the older, the vaguer."""
    age = facts.age_of(day)
    for unit in (timedelta(days=366), timedelta(days=31), timedelta(days=7)):
        if age >= unit * 0.9:
            return unit
    return timedelta(days=1)
