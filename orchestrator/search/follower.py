"""Keeps the index equal to what is stored: follows the job records and takes in what ended.

Nothing depends on what happened before: a job is read when the index has it not, or as it was at
another end, and removed when it has no record. So a crash at any moment loses nothing.
"""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import DecodeError
from structlog import get_logger

from captions.model import Transcript
from mesh.errors import MeshError, NotFoundError, UnavailableError, UnsupportedError
from mesh.identity import Scope
from mesh.reasons import Reason
from mesh.tasks import map_concurrently
from mesh.watching import TERMINAL
from orchestrator.jobs.caption_files import CaptionReader
from orchestrator.jobs.index import JobIndex
from orchestrator.jobs.store import ACTIVE
from orchestrator.metrics import SEARCH_BEHIND, SEARCH_INDEXED
from orchestrator.search.index import Recording, SearchIndex
from orchestrator.search.passages import passages
from ytcaption.v1 import job_pb2

log = get_logger(__name__)

T = TypeVar("T")

LOOK_AT_ONCE = 500
"""Records that are compared with the index in one step."""
TAKE_AT_ONCE = 16
"""Transcripts that are taken in with one transaction."""
READ_AT_ONCE = 4
AGAIN_SECONDS = 5.0
"""After a transcript could not be read, or the index not be written."""
SCRUB_SECONDS = 600.0
"""What is deleted is off the disk of every orchestrator this long after, at the latest."""
NICENESS = 10
"""Captioning goes before."""
MAX_TITLE = 1000


@dataclass(frozen=True, slots=True)
class Outdated:
    """What the index has to change about some records."""

    read: list[str]
    removed: list[str]


class Follower:
    """The one writer of this orchestrator's index, in a thread of its own."""

    def __init__(self, jobs: JobIndex, reading: CaptionReader, folder: Path) -> None:
        self._jobs = jobs
        self._reading = reading
        self._folder = folder
        self._index: SearchIndex | None = None
        self._fault: MeshError | None = None
        """Why there is no index."""
        self._decided = asyncio.Event()
        """Set once there is an index, or a fault."""
        self._thread: ThreadPoolExecutor | None = None
        self._changed: dict[str, None] = {}
        """Jobs whose records changed, to be compared with the index; the newest last."""
        self._waiting: dict[str, None] = {}
        """Ended jobs that are not in the index as they are."""
        self._postponed: set[str] = set()
        """Ended jobs whose transcript could not be read; compared again after a while."""
        self._work = asyncio.Event()
        self._turn = asyncio.Lock()
        self._broken = False
        self._scrub_at: float | None = None
        """When the next scrub is due; None while nothing was removed."""
        jobs.also_notify(self.note)

    @property
    def index(self) -> SearchIndex:
        """The open index; MeshError that says why there is none."""
        if self._index is None:
            raise self._fault or UnavailableError(
                "the index is being opened", reason=Reason.STORAGE_UNAVAILABLE
            )
        return self._index

    async def opened(self) -> SearchIndex:
        """The index once it is open; MeshError that says why it cannot be."""
        await self._decided.wait()
        return self.index

    def note(self, job_id: str) -> None:
        """A job was made, changed or removed."""
        self._changed.pop(job_id, None)
        self._postponed.discard(job_id)
        if self._jobs.state(job_id) not in ACTIVE:
            self._changed[job_id] = None
            self._work.set()

    def distrust(self) -> None:
        """The file turned out to be damaged or gone: makes it anew."""
        self._broken = True
        self._work.set()

    def behind(self, scope: Scope) -> int:
        """Jobs in the scope that ended, and that are still to be taken in."""
        return sum(
            self._jobs.state(id_) in TERMINAL and self._jobs.includes(id_, scope)
            for id_ in self._changed.keys() | self._waiting.keys() | self._postponed
        )

    async def run(self) -> None:
        """Runs until cancelled."""
        thread = self._thread = ThreadPoolExecutor(1, "search-writer", initializer=_give_way)
        try:
            self._index = await self._open()
            self._decided.set()
            await self._compare_everything()
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(self._scrub_at):
                        await self._work.wait()
                self._work.clear()
                await self._catch_up()
                if self._scrub_at is not None and _now() >= self._scrub_at:
                    await self._scrub_now()
        finally:
            if self._index is not None:
                closing, self._index = self._index, None
                thread.submit(closing.close)  # after what the thread does now
            thread.shutdown(wait=False)

    async def _open(self) -> SearchIndex:
        while True:
            try:
                return await self._in_thread(SearchIndex, self._folder)
            except UnsupportedError as error:
                self._fault = error
                log.warning("nothing can be searched", error=str(error))
                self._decided.set()
                await asyncio.Event().wait()
            except (sqlite3.Error, OSError, UnavailableError) as error:
                self._fault = UnavailableError(
                    "the index cannot be opened", reason=Reason.STORAGE_UNAVAILABLE
                )
                log.warning("the index cannot be opened", error=str(error))
            self._decided.set()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _compare_everything(self) -> None:
        """Finds what changed while nothing followed."""
        for job_id in sorted(await self._jobs.ids(TERMINAL)):
            self.note(job_id)
        last = ""
        while found := await self._in_thread(self.index.jobs_after, last, LOOK_AT_ONCE):
            last = found[-1]
            for job_id in found:
                if self._jobs.state(job_id) is None:
                    self.note(job_id)
        self._work.set()

    async def _catch_up(self) -> None:
        while self._changed or self._waiting or self._broken:
            try:
                async with self._turn:
                    await self._step()
            except sqlite3.DatabaseError as error:
                # Operational: no room, or held up; anything else: the file is damaged.
                self._broken = self._broken or not isinstance(error, sqlite3.OperationalError)
                log.warning("the index cannot be written", error=str(error), again=self._broken)
                await asyncio.sleep(AGAIN_SECONDS)
        await self._measure()

    async def _step(self) -> None:
        """Compares some records, then takes in some transcripts, the newest first."""
        if self._broken:
            await self._in_thread(self.index.recreate)
            self._broken = False
            for job_id in sorted(await self._jobs.ids(TERMINAL)):
                self.note(job_id)
        if self._changed:
            await self._compare(list(islice(reversed(self._changed), LOOK_AT_ONCE)))
        if self._waiting:
            await self._take(list(islice(reversed(self._waiting), TAKE_AT_ONCE)))

    async def _compare(self, ids: Sequence[str]) -> None:
        """Removes what is gone, and finds what is to be read."""
        records = {id_: self._jobs.stored(id_) for id_ in ids}
        found = await self._in_thread(_outdated, self.index, records)
        if found.removed:
            await self._in_thread(self.index.change, (), found.removed)
            self._scrub_at = self._scrub_at or _now() + SCRUB_SECONDS
        for id_, data in records.items():
            if self._jobs.stored(id_) is data:  # else it changed meanwhile, and is compared again
                self._changed.pop(id_, None)
            self._waiting.pop(id_, None)
        self._waiting.update(dict.fromkeys(found.read))

    async def _take(self, ids: Sequence[str]) -> None:
        found = [_parsed(self._jobs.stored(id_)) for id_ in ids]
        jobs = [job for job in found if job is not None]
        read = await map_concurrently(self._read, jobs, at_once=READ_AT_ONCE)
        taken = [(job, one) for job, one in zip(jobs, read, strict=True) if one is not None]
        await self._in_thread(_take_in, self.index, taken)
        for id_ in ids:
            self._waiting.pop(id_, None)

    async def _read(self, job: job_pb2.Job) -> Transcript | None:
        """The transcript; None if it cannot be read now, which is tried again."""
        try:
            return await self._reading.transcript(job)
        except DecodeError:
            log.warning("skip unreadable transcript", id=job.job_id)
            return Transcript(())
        except MeshError as error:
            log.info("a transcript is indexed later", id=job.job_id, error=str(error))
            self._postponed.add(job.job_id)
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self.note, job.job_id)
            return None

    async def include(self, job_id: str) -> job_pb2.Job:
        """Returns a job that ended once it is in the index; MeshError if it cannot be."""
        await self._jobs.catch_up()
        job = _parsed(self._jobs.stored(job_id))
        if job is None or job.state not in TERMINAL:
            raise NotFoundError(f"no ended job {job_id[:64]!r}", reason=Reason.JOB_NOT_FOUND)
        async with self._turn:
            await self._compare([job_id])
            if job_id in self._waiting:
                transcript = await self._reading.transcript(job)
                await self._in_thread(_take_in, self.index, [(job, transcript)])
                self._waiting.pop(job_id, None)
        return job

    async def scrub(self) -> None:
        """Removes jobs that are deleted by now, and every byte of theirs from the disk."""
        try:
            index = await self.opened()
        except UnsupportedError:
            return
        await self._jobs.catch_up()
        async with self._turn:
            gone = [id_ for id_ in self._changed if self._jobs.state(id_) is None]
            if gone:
                await self._compare(gone)
            try:
                await self._in_thread(index.scrub)
            except sqlite3.Error as error:
                if not isinstance(error, sqlite3.OperationalError):
                    self.distrust()
                raise UnavailableError(
                    "the index cannot be written now", reason=Reason.STORAGE_UNAVAILABLE
                ) from error
            self._scrub_at = None

    async def _scrub_now(self) -> None:
        try:
            await self.scrub()
        except MeshError as error:
            log.warning("the index is scrubbed later", error=str(error))
            self._scrub_at = _now() + SCRUB_SECONDS

    async def _measure(self) -> None:
        with suppress(sqlite3.Error):
            SEARCH_INDEXED.set(await self._in_thread(self.index.count))
        SEARCH_BEHIND.set(self.behind(Scope()))

    async def _in_thread(self, act: Callable[..., T], *arguments: object) -> T:
        if self._thread is None:
            raise UnavailableError("the index is closed", reason=Reason.STORAGE_UNAVAILABLE)
        call = partial(act, *arguments)
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _give_way() -> None:
    """On Linux a thread has a priority of its own; elsewhere this one is like the others."""
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def _outdated(index: SearchIndex, records: dict[str, bytes | None]) -> Outdated:
    marks = index.marks(records.keys())
    read: list[str] = []
    removed: list[str] = []
    for id_, data in records.items():
        job = _parsed(data)
        if job is not None and job.state not in TERMINAL:
            continue
        mark = _mark(job) if job is not None else None
        if mark is None:
            removed += [id_] if id_ in marks else []
        elif marks.get(id_) != mark:
            read.append(id_)
    return Outdated(read, removed)


def _parsed(data: bytes | None) -> job_pb2.Job | None:
    with suppress(DecodeError):
        return job_pb2.JobRecord.FromString(data).job if data else None
    return None


def _mark(job: job_pb2.Job) -> int | None:
    """Another one after each end; None for a job without captions."""
    return job.end_time.ToNanoseconds() if job.segment_count else None


def _take_in(index: SearchIndex, taken: Sequence[tuple[job_pb2.Job, Transcript]]) -> None:
    index.change([_recording(job, transcript) for job, transcript in taken])


def _recording(job: job_pb2.Job, transcript: Transcript) -> Recording:
    return Recording(
        job_id=job.job_id,
        mark=_mark(job) or 0,
        owner=job.owner,
        group=job.group,
        collection_id=job.collection_id,
        title=job.media.title[:MAX_TITLE],
        source=job.source.url or job.source.upload.file_name,
        passages=tuple(passages(transcript)),
    )
