"""Answers searches of callers: what they may see, page by page, in threads of its own."""

import asyncio
import re
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mesh.errors import InvalidRequestError, TimedOutError, UnavailableError
from mesh.identity import ALL, Scope, current
from mesh.reasons import Reason
from orchestrator.jobs.index import JobIndex
from orchestrator.search.follower import Follower
from orchestrator.search.index import MOST_RANKED, Filter, Hits, Search, SearchIndex
from orchestrator.search.query import parse

USUAL_PAGE, MAX_PAGE = 20, 100
MAX_DEPTH = MOST_RANKED
"""Passages that can be paged through."""
AT_ONCE = 4
SEARCH_SECONDS = 10.0
TAG = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,4}")
"""The form of a BCP-47 tag."""


@dataclass(frozen=True, slots=True)
class Found:
    """One page, and how much is searched."""

    hits: Hits
    indexed: int
    behind: int


class CaptionSearch:
    """Searches the index; the job index decides last about what is there and for whom."""

    def __init__(self, jobs: JobIndex, follower: Follower) -> None:
        self._jobs = jobs
        self.follower = follower
        self._threads = ThreadPoolExecutor(AT_ONCE, "search")

    async def find(  # noqa: PLR0913 # the fields of a request
        self,
        text: str,
        *,
        size: int = 0,
        token: str = "",
        language: str = "",
        collection_id: str = "",
        job_id: str = "",
    ) -> Found:
        """The passages that match best, of what the current caller may see."""
        if language and not TAG.fullmatch(language):
            raise InvalidRequestError(
                f"{language[:40]!r} is not a language tag", reason=Reason.LANGUAGE_UNKNOWN
            )
        scope = current().scope
        search = Search(
            query=parse(text),
            filter=Filter(scope.owner, scope.groups, language, collection_id, job_id),
            offset=_offset(token),
            size=_size(size),
            visible=self._visible_in(scope),
        )
        try:
            async with asyncio.timeout(SEARCH_SECONDS):
                index = await self.follower.opened()
                # What was deleted before this call is not found any more.
                await self._jobs.catch_up()
                hits, indexed = await self._in_thread(index, search, scope)
        except TimeoutError as error:
            raise TimedOutError(
                f"the search took over {SEARCH_SECONDS:.0f} s", reason=Reason.DEADLINE
            ) from error
        return Found(hits, indexed, self.follower.behind(scope))

    def _visible_in(self, scope: Scope) -> Callable[[str], bool]:
        return lambda job_id: self._jobs.includes(job_id, scope)

    async def _in_thread(
        self, index: SearchIndex, search: Search, scope: Scope
    ) -> tuple[Hits, int]:
        """Ends the search in its thread, too, when the caller goes or it takes too long."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, _search, index, search, scope)
        except sqlite3.Error as error:
            self.follower.distrust()
            raise UnavailableError(
                "the index cannot be read; it is being made again",
                reason=Reason.STORAGE_UNAVAILABLE,
            ) from error
        finally:
            search.give_up()

    def close(self) -> None:
        """Takes no more searches."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _search(index: SearchIndex, search: Search, scope: Scope) -> tuple[Hits, int]:
    owner = None if scope == ALL else scope.owner
    return index.find(search), index.count(owner, scope.groups)


def _size(asked: int) -> int:
    if asked < 0:
        raise InvalidRequestError("page_size must not be negative")
    return min(asked or USUAL_PAGE, MAX_PAGE)


def _offset(token: str) -> int:
    """The place a page token stands for."""
    if not token:
        return 0
    if not (token.isascii() and token.isdigit() and 0 < int(token[:9]) <= MAX_DEPTH):
        raise InvalidRequestError("page_token is not one we gave out")
    return int(token)
