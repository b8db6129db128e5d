"""The full-text index: one SQLite file with FTS5, one writer, any number of readers.

A recording and its passages are written in one transaction with the mark of what was read: after a
kill either all of it is there or nothing. Readers work on snapshots and never wait for the writer.
"""

import fcntl
import os
import sqlite3
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic, sleep

from mesh.errors import UnavailableError, UnsupportedError
from mesh.private import private_folder
from mesh.reasons import Reason
from orchestrator.search import passages as cutting
from orchestrator.search import words as folding
from orchestrator.search.matches import Snippet, matches_of, snippet
from orchestrator.search.passages import Passage, pack, time_at, unpack
from orchestrator.search.query import Query
from orchestrator.search.words import words

SCHEMA = """
CREATE TABLE about (version TEXT NOT NULL);
CREATE TABLE recordings (
    id INTEGER PRIMARY KEY,
    job TEXT NOT NULL UNIQUE,
    mark INTEGER NOT NULL,
    owner TEXT NOT NULL,
    team TEXT NOT NULL,
    collection TEXT NOT NULL,
    title TEXT NOT NULL,
    source TEXT NOT NULL
);
CREATE INDEX recordings_of_owner ON recordings (owner);
CREATE TABLE passages (
    id INTEGER PRIMARY KEY,
    recording INTEGER NOT NULL,
    text TEXT NOT NULL,
    own INTEGER NOT NULL,
    start INTEGER NOT NULL,
    until INTEGER NOT NULL,
    language TEXT NOT NULL,
    translated INTEGER NOT NULL,
    times BLOB NOT NULL
);
CREATE INDEX passages_of_recording ON passages (recording);
CREATE VIRTUAL TABLE words USING fts5 (text, scope, content='', tokenize='ascii');
INSERT INTO words (words, rank) VALUES ('rank', 'bm25(1.0, 0.0)');
"""
"""`words` has no copy of the text: what is removed is given again, made from `passages`.

The text is cut by our own rules, and `ascii` cuts only at the blanks between. `scope` has a word
for whose it is, its job, collection and languages: filters are looked up like words, and do not
count for the rank.
"""
VERSION = f"1.{folding.VERSION}.{cutting.VERSION}.{unicodedata.unidata_version}"
"""An index of another version is made again from the transcripts."""
FILE = "index.db"
MAX_SLOTS = 64
BUSY_SECONDS = 60.0
AGAIN_SECONDS = 0.05
MOST_RANKED = 5000
"""Passages that are ranked; of more that match, those that were taken in last."""
CHECK_STEPS = 20_000
"""Steps of SQLite between two looks whether a search was given up."""
WRITER = (
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",  # what a power cut takes is read from the broker again
    "PRAGMA secure_delete = ON",
    "PRAGMA journal_size_limit = 16777216",
    "PRAGMA temp_store = MEMORY",
)


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording to be found, and its passages."""

    job_id: str
    mark: int
    """When the job ended, in nanoseconds: with another one it is read again."""
    owner: str
    group: str
    collection_id: str
    title: str
    source: str
    passages: Sequence[Passage] = ()


@dataclass(frozen=True, slots=True)
class Filter:
    """Where to look; empty means everywhere."""

    owner: str | None = None
    """None: with every owner."""
    groups: frozenset[str] = frozenset()
    language: str = ""
    collection_id: str = ""
    job_id: str = ""

    def expression(self) -> str:
        """The filter for FTS5; "" if it lets everything through."""
        named = {"c": self.collection_id, "j": self.job_id, "l": _language(self.language)}
        parts = [_mark(kind, value) for kind, value in named.items() if value]
        if self.owner is not None:
            own = [_mark("o", self.owner), *(_mark("g", one) for one in sorted(self.groups))]
            parts.append(f"({' OR '.join(own)})")
        return " AND ".join(parts)


@dataclass(frozen=True, slots=True)
class Hit:
    """One passage that matches."""

    job_id: str
    mark: int
    title: str
    source: str
    collection_id: str
    language: str
    translated: bool
    start: int
    """Milliseconds from the beginning of the recording."""
    end: int
    moment: int
    """When the first match of the snippet is said."""
    snippet: Snippet


@dataclass(frozen=True, slots=True)
class Hits:
    """A part of what matches, best first."""

    hits: list[Hit]
    next: int | None
    """Where the next part begins; None after the last."""


@dataclass(slots=True)
class Search:
    """One search; `give_up` ends it from another thread."""

    query: Query
    filter: Filter
    offset: int
    size: int
    visible: Callable[[str], bool]
    """Whether a job may be shown; asked last, for each hit."""
    given_up: bool = field(default=False)

    def give_up(self) -> None:
        """Ends the search within a moment."""
        self.given_up = True

    @property
    def expression(self) -> str:
        """What FTS5 looks for."""
        scope = self.filter.expression()
        found = f"text : ({self.query.expression})"
        return f"({found}) AND (scope : ({scope}))" if scope else found


class SearchIndex:
    """An open index; the folder of its file is locked until it is closed."""

    def __init__(self, folder: Path) -> None:
        """Takes a place in the folder that no other process has, with what it held before.

        Files of processes that ended are removed: they may hold what was to be erased.
        """
        _check_fts5()
        private_folder(folder)
        self._lock, place = _take(folder)
        self.path = place / FILE
        self._idle: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        self._writer: sqlite3.Connection | None = None
        self._generation = 0
        """Readers of a file that was replaced are closed, not used again."""
        try:
            _remove_unused(folder, place)
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        try:
            self._writer = self._connected()
            if self._is_current():
                return
        except sqlite3.OperationalError:  # no room, no right: the file may be sound
            raise
        except sqlite3.DatabaseError:  # it is no database any more
            pass
        self.recreate()

    def recreate(self) -> None:
        """Removes the file and begins an empty one."""
        self._close_connections()
        _remove_files(self.path.parent)
        self._writer = self._connected()
        with self._transaction() as cursor:
            for statement in SCHEMA.split(";\n"):
                cursor.execute(statement)
            cursor.execute("INSERT INTO about VALUES (?)", (VERSION,))

    def _connected(self) -> sqlite3.Connection:
        # Created before SQLite does, with rights for us alone.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            for statement in WRITER:
                connection.execute(statement).close()
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_current(self) -> bool:
        try:
            with closing(self._write.execute("SELECT version FROM about")) as cursor:
                return bool(cursor.fetchone() == (VERSION,))
        except sqlite3.OperationalError:  # no such table
            return False

    @property
    def _write(self) -> sqlite3.Connection:
        if self._writer is None:
            raise UnavailableError("the index is closed", reason=Reason.STORAGE_UNAVAILABLE)
        return self._writer

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Cursor]:
        connection = self._write
        with closing(connection.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            try:
                yield cursor
                cursor.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    cursor.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Lets another process have the folder."""
        self._close_connections()
        os.close(self._lock)

    def _close_connections(self) -> None:
        self._generation += 1
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    # The writer.

    def marks(self, job_ids: Collection[str]) -> dict[str, int]:
        """What was read of those of these jobs that are in the index."""
        holes = ",".join("?" * len(job_ids))
        sql = f"SELECT job, mark FROM recordings WHERE job IN ({holes})"  # noqa: S608 # only "?"
        with closing(self._write.execute(sql, tuple(job_ids))) as cursor:
            return dict(cursor)

    def jobs_after(self, job_id: str, limit: int) -> list[str]:
        """Ids of indexed jobs, ascending, that follow one."""
        sql = "SELECT job FROM recordings WHERE job > ? ORDER BY job LIMIT ?"
        with closing(self._write.execute(sql, (job_id, limit))) as cursor:
            return [job for (job,) in cursor]

    def change(self, recordings: Sequence[Recording], removed: Collection[str] = ()) -> None:
        """Takes in recordings, each in place of what was there of it, and removes others."""
        with self._transaction() as cursor:
            for job_id in removed:
                _remove(cursor, job_id)
            for recording in recordings:
                _remove(cursor, recording.job_id)
                _add(cursor, recording)

    def scrub(self) -> None:
        """Overwrites on disk what was removed: of the words, of the texts, of the journal.

        Removed words stay in older parts of FTS5 until those are merged, which this does at once.
        """
        with self._transaction() as cursor:
            cursor.execute("INSERT INTO words (words) VALUES ('optimize')")
        with closing(self._write.execute("PRAGMA incremental_vacuum")) as cursor:
            cursor.fetchall()
        give_up = monotonic() + BUSY_SECONDS
        while True:
            with closing(self._write.execute("PRAGMA wal_checkpoint(TRUNCATE)")) as cursor:
                busy, *_ = cursor.fetchone()
            if not busy:
                return
            if monotonic() > give_up:
                raise UnavailableError(
                    "readers keep the index's journal open", reason=Reason.STORAGE_UNAVAILABLE
                )
            sleep(AGAIN_SECONDS)

    # Readers.

    def find(self, search: Search) -> Hits:
        """The best passages from an offset on, as they were at one moment; in any thread."""
        with self._snapshot(search) as connection:
            return _found(connection, search)

    def count(self, owner: str | None = None, groups: Collection[str] = ()) -> int:
        """Recordings in the index of an owner, or shared with one of the groups; in any thread."""
        sql, values = "SELECT count(*) FROM recordings", tuple[str, ...]()
        if owner is not None:
            holes = ",".join("?" * len(groups))
            sql += f" WHERE owner = ? OR (team <> '' AND team IN ({holes}))"  # only "?"
            values = (owner, *groups)
        with (
            self._reader() as connection,
            closing(connection.execute(sql, values)) as cursor,
        ):
            return int(cursor.fetchone()[0])

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        generation = self._generation
        try:
            connection = self._idle.get_nowait()
        except Empty:
            connection = sqlite3.connect(
                f"{self.path.as_uri()}?mode=ro",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        if generation == self._generation:
            self._idle.put(connection)
        else:
            connection.close()

    @contextmanager
    def _snapshot(self, search: Search) -> Iterator[sqlite3.Connection]:
        with self._reader() as connection:
            connection.set_progress_handler(lambda: search.given_up, CHECK_STEPS)
            connection.execute("BEGIN").close()
            try:
                yield connection
            finally:
                connection.set_progress_handler(None, 0)
                connection.execute("ROLLBACK").close()


def _found(connection: sqlite3.Connection, search: Search) -> Hits:
    # Without the limit two words that are everywhere would cost a walk through everything.
    ranked = f"""
        SELECT id FROM (
            SELECT rowid AS id, rank AS score FROM words
            WHERE words MATCH ? ORDER BY rowid DESC LIMIT {MOST_RANKED}
        ) ORDER BY score, id DESC LIMIT -1 OFFSET ?
    """  # noqa: S608 # a number of ours
    hits: list[Hit] = []
    place = search.offset
    with closing(connection.execute(ranked, (search.expression, search.offset))) as rows:
        for (passage,) in rows:
            if len(hits) == search.size:
                return Hits(hits, place)
            place += 1
            if (hit := _hit(connection, passage, search)) is not None:
                hits.append(hit)
    return Hits(hits, None)


def _hit(connection: sqlite3.Connection, passage: int, search: Search) -> Hit | None:
    sql = """
        SELECT job, mark, title, source, collection, text, own, start, until, language, translated,
            times
        FROM passages JOIN recordings ON recordings.id = passages.recording
        WHERE passages.id = ?
    """
    with closing(connection.execute(sql, (passage,))) as cursor:
        row = cursor.fetchone()
    job_id, mark, title, source, collection, text, own, start, until, language, *rest = row
    translated, times = rest
    if not search.visible(job_id):
        return None
    shown = snippet(text, own, matches_of(search.query, text))
    if shown is None:
        return None
    moment = time_at(unpack(times), shown.place)
    return Hit(
        job_id=job_id,
        mark=mark,
        title=title,
        source=source,
        collection_id=collection,
        language=language,
        translated=bool(translated),
        start=start,
        end=until,
        moment=min(max(moment, start), until),
        snippet=shown,
    )


def _add(cursor: sqlite3.Cursor, recording: Recording) -> None:
    cursor.execute(
        "INSERT INTO recordings (job, mark, owner, team, collection, title, source)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            recording.job_id,
            recording.mark,
            recording.owner,
            recording.group,
            recording.collection_id,
            recording.title,
            recording.source,
        ),
    )
    number = cursor.lastrowid
    for passage in recording.passages:
        cursor.execute(
            "INSERT INTO passages (recording, text, own, start, until, language, translated, times)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                number,
                passage.text,
                passage.own,
                passage.start,
                passage.end,
                passage.language,
                passage.translated,
                pack(passage.times),
            ),
        )
        cursor.execute(
            "INSERT INTO words (rowid, text, scope) VALUES (?, ?, ?)",
            (cursor.lastrowid, *_indexed(passage.text, passage.language, _scope_of(recording))),
        )


def _scope_of(recording: Recording) -> Mapping[str, str]:
    return {
        "j": recording.job_id,
        "o": recording.owner,
        "g": recording.group,
        "c": recording.collection_id,
    }


def _remove(cursor: sqlite3.Cursor, job_id: str) -> None:
    cursor.execute("SELECT id, owner, team, collection FROM recordings WHERE job = ?", (job_id,))
    if (row := cursor.fetchone()) is None:
        return
    number, owner, group, collection = row
    scope = {"j": job_id, "o": owner, "g": group, "c": collection}
    cursor.execute("SELECT id, text, language FROM passages WHERE recording = ?", (number,))
    for passage, text, language in cursor.fetchall():
        cursor.execute(
            "INSERT INTO words (words, rowid, text, scope) VALUES ('delete', ?, ?, ?)",
            (passage, *_indexed(text, language, scope)),
        )
    cursor.execute("DELETE FROM passages WHERE recording = ?", (number,))
    cursor.execute("DELETE FROM recordings WHERE id = ?", (number,))


def _indexed(text: str, language: str, scope: Mapping[str, str]) -> tuple[str, str]:
    """The two columns of `words`; the same for the same passage, or its words stay."""
    marks = [_mark(kind, value) for kind, value in scope.items() if value or kind == "o"]
    tag = _language(language).split("-")
    marks += [_mark("l", "-".join(tag[:end])) for end in range(1, len(tag) + 1) if tag[0]]
    return " ".join(word.text for word in words(text)), " ".join(marks)


def _language(tag: str) -> str:
    return tag.strip().lower().replace("_", "-")


def _mark(kind: str, value: str) -> str:
    """A word that stands for a value of any characters."""
    return kind + sha256(value.encode()).hexdigest()[:20]


def _check_fts5() -> None:
    """Raises if this Python's SQLite was built without FTS5."""
    if not has_fts5():
        raise UnsupportedError(
            f"the SQLite {sqlite3.sqlite_version} of this Python has no FTS5",
            reason=Reason.TOOL_MISSING,
        )


def has_fts5() -> bool:
    """Whether this Python's SQLite has FTS5."""
    with closing(sqlite3.connect(":memory:")) as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE tried USING fts5 (text)").close()
        except sqlite3.OperationalError:
            return False
    return True


def _take(folder: Path) -> tuple[int, Path]:
    """The lock of the first place that no other process has."""
    for number in range(MAX_SLOTS):
        place = private_folder(folder / str(number))
        if (lock := _locked(place)) is not None:
            return lock, place
    raise UnavailableError(
        f"{MAX_SLOTS} processes search in {folder}", reason=Reason.STORAGE_UNAVAILABLE
    )


def _locked(place: Path) -> int | None:
    """The lock of a folder, which ends with the process; None if another process has it."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_unused(folder: Path, own: Path) -> None:
    for place in folder.iterdir():
        if place != own and (lock := _locked(place)) is not None:
            _remove_files(place)
            os.close(lock)


def _remove_files(place: Path) -> None:
    for path in place.glob(f"{FILE}*"):
        path.unlink(missing_ok=True)
