"""The index on disk: what it finds, for whom, and what of it stays on the disk."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from captions.model import Segment, Transcript, Word
from mesh.errors import UnsupportedError
from mesh.reasons import Reason
from orchestrator.search import index as engine
from orchestrator.search.index import Filter, Hit, Recording, Search, SearchIndex
from orchestrator.search.passages import pack, passages, time_at, unpack
from orchestrator.search.query import parse

Texts = Sequence[str | Segment]


def transcript(texts: Texts, language: str = "en", **fields: Any) -> Transcript:
    """Six seconds for each text."""
    segments = tuple(
        one
        if isinstance(one, Segment)
        else Segment(number * 6000, (number + 1) * 6000, one, language=language)
        for number, one in enumerate(texts)
    )
    return Transcript(segments, language, duration=segments[-1].end, **fields)


def recording(job_id: str, *texts: str | Segment, **fields: Any) -> Recording:
    language = fields.pop("language", "en")
    usual: dict[str, Any] = {
        "owner": "",
        "group": "",
        "collection_id": "",
        "title": "",
        "source": "",
        "mark": 1,
    }
    made = tuple(passages(transcript(texts, language, language_out=fields.pop("language_out", ""))))
    return Recording(job_id=job_id, passages=made, **(usual | fields))


@pytest.fixture
def index(tmp_path: Path) -> Iterator[SearchIndex]:
    with closing(SearchIndex(tmp_path / "search")) as opened:
        yield opened


def hits(index: SearchIndex, query: str, size: int = 100, **filters: Any) -> list[Hit]:
    found = index.find(Search(parse(query), Filter(**filters), 0, size, lambda _: True))
    return found.hits


def jobs(index: SearchIndex, query: str, **filters: Any) -> list[str]:
    return [hit.job_id for hit in hits(index, query, **filters)]


def test_a_hit_says_where_and_when(index: SearchIndex) -> None:
    index.change([recording("a", "one two", "three four", title="T", source="S", mark=7)])

    [hit] = hits(index, "three")

    assert (hit.job_id, hit.title, hit.source, hit.mark) == ("a", "T", "S", 7)
    assert (hit.start, hit.end, hit.moment) == (0, 12_000, 6000)
    assert hit.snippet.text == "one two three four"
    assert hit.snippet.matches == ((8, 13),)


def test_the_moment_of_a_word_with_a_time_of_its_own_is_exact(index: SearchIndex) -> None:
    timed = (Word(100, 400, "one"), Word(5000, 5500, "two"))
    index.change([recording("a", Segment(0, 6000, "one two", timed, language="en"))])

    assert [hit.moment for hit in hits(index, "two")] == [5000]


def test_a_phrase_is_found_across_passages_and_no_passage_twice(index: SearchIndex) -> None:
    texts = [f"sentence number {number} " + "filler " * 20 + f"end{number}" for number in range(9)]
    index.change([recording("a", *texts)])

    assert len({hit.start for hit in hits(index, "sentence")}) > 2
    for number in range(8):
        assert len(hits(index, f'"end{number} sentence number {number + 1}"')) == 1
        assert len(hits(index, f"end{number}")) == 1


def test_speech_after_a_long_pause_is_another_passage(index: SearchIndex) -> None:
    late = Segment(60_000, 66_000, "two", language="en")
    index.change([recording("a", "one", late)])

    assert hits(index, '"one two"') == []
    assert [hit.start for hit in hits(index, "two")] == [60_000]


def test_the_translation_is_found_and_says_so(index: SearchIndex) -> None:
    segment = Segment(0, 6000, "bom dia", language="pt", translation="good morning")
    same = Segment(6000, 9000, "okay", language="en")
    index.change([recording("a", segment, same, language="pt", language_out="en")])

    [spoken], [translated] = hits(index, "dia"), hits(index, "morning")
    assert (spoken.translated, spoken.language) == (False, "pt")
    assert (translated.translated, translated.language) == (True, "en")
    assert len(hits(index, "okay")) == 1  # not once more for what was not translated


def test_filters_let_through_only_what_they_name(index: SearchIndex) -> None:
    index.change(
        [
            recording("a", "word", owner="ana", language="pt-BR", collection_id="c"),
            recording("b", "word", owner="bia", group="team", language="pt"),
            recording("c", "word", owner='x" OR "', language="en"),
        ]
    )

    assert sorted(jobs(index, "word")) == ["a", "b", "c"]
    assert jobs(index, "word", owner="ana") == ["a"]
    assert sorted(jobs(index, "word", owner="ana", groups=frozenset({"team"}))) == ["a", "b"]
    assert jobs(index, "word", owner="") == []
    assert jobs(index, "word", owner='x" OR "') == ["c"]
    assert sorted(jobs(index, "word", language="pt")) == ["a", "b"]
    assert jobs(index, "word", language="PT_br") == ["a"]
    assert jobs(index, "word", collection_id="c") == ["a"]
    assert jobs(index, "word", job_id="b") == ["b"]
    assert jobs(index, "word", owner="ana", job_id="b") == []
    assert (index.count(), index.count("ana"), index.count("ana", ["team"])) == (3, 1, 2)


def test_the_last_word_about_what_is_visible_is_not_the_indexs(index: SearchIndex) -> None:
    index.change([recording(name, "word") for name in "abcd"])
    search = Search(parse("word"), Filter(), 0, 2, lambda job_id: job_id in "bd")

    found = index.find(search)

    assert sorted(hit.job_id for hit in found.hits) == ["b", "d"]


def test_the_best_match_is_first_and_pages_follow_each_other(index: SearchIndex) -> None:
    index.change([recording(f"job{number:02}", "word " + "other " * number) for number in range(9)])

    pages, offset = list[str](), 0
    while True:
        part = index.find(Search(parse("word"), Filter(), offset, 4, lambda _: True))
        pages += [hit.job_id for hit in part.hits]
        if part.next is None:
            break
        offset = part.next

    assert pages == [f"job{number:02}" for number in range(9)]


def test_a_recording_is_replaced_and_removed_whole(index: SearchIndex) -> None:
    index.change([recording("a", "Zürich first"), recording("b", "Zürich")])
    index.change([recording("a", "second", mark=2)])

    assert jobs(index, "first") == []
    assert jobs(index, "zurich") == ["b"]
    assert jobs(index, "second") == ["a"]
    assert index.marks(["a", "b", "c"]) == {"a": 2, "b": 1}

    index.change([], ["b", "missing"])
    assert jobs(index, "zurich") == []
    assert index.jobs_after("", 9) == ["a"]
    assert index.jobs_after("a", 9) == []


def found_in(folder: Path, *names: str) -> set[str]:
    data = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    return {name for name in names if name.encode() in data}


def test_scrubbed_words_are_in_no_file(index: SearchIndex, tmp_path: Path) -> None:
    marks = [f"q{number:03}zsecret" for number in range(60)]
    others = [f"q{number:03}zpublic" for number in range(60)]
    for mark, other in zip(marks, others, strict=True):
        index.change([recording(mark, f"{mark} text", title=mark), recording(other, f"{other} x")])
    assert found_in(tmp_path, *marks)

    index.change([], marks)
    index.scrub()

    assert found_in(tmp_path, *marks, *(f"{mark[1:]}" for mark in marks)) == set()
    assert found_in(tmp_path, *others) == set(others)
    assert all(jobs(index, other) == [other] for other in others)


def test_an_index_of_another_version_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SearchIndex(tmp_path)) as first:
        first.change([recording("a", "word")])
    with closing(SearchIndex(tmp_path)) as same:
        assert same.count() == 1
    monkeypatch.setattr(engine, "VERSION", "another")
    with closing(SearchIndex(tmp_path)) as newer:
        assert newer.count() == 0


@pytest.mark.parametrize("damage", [b"", b"no database" * 1000])
def test_a_damaged_file_begins_anew(tmp_path: Path, damage: bytes) -> None:
    with closing(SearchIndex(tmp_path)) as first:
        first.change([recording("a", "word")])
        path = first.path
    path.write_bytes(damage)
    with closing(SearchIndex(tmp_path)) as second:
        assert second.count() == 0
        second.change([recording("a", "word")])
        assert jobs(second, "word") == ["a"]


def test_two_processes_share_no_file_and_that_of_an_ended_one_is_removed(tmp_path: Path) -> None:
    with closing(SearchIndex(tmp_path)) as first:
        with closing(SearchIndex(tmp_path)) as second:
            second.change([recording("b", "qsecretz")])
            assert first.path != second.path
            assert first.count() == 0
        assert found_in(tmp_path, "qsecretz")
        with closing(SearchIndex(tmp_path)) as third:
            assert third.count() == 1  # in the place of the second
    with closing(SearchIndex(tmp_path)) as alone:
        assert alone.count() == 0
    assert not found_in(tmp_path, "qsecretz")


def test_the_files_are_ours_alone(index: SearchIndex) -> None:
    index.change([recording("a", "word")])

    paths = [index.path.parent, *index.path.parent.iterdir()]
    assert len(paths) > 2
    assert all(path.stat().st_mode & 0o077 == 0 for path in paths)


def test_a_search_that_is_given_up_ends(index: SearchIndex) -> None:
    index.change([recording(f"job{number}", "word " * 50) for number in range(300)])
    search = Search(parse("word"), Filter(), 0, 100, lambda _: True)
    search.give_up()
    ended = threading.Event()

    def run() -> None:
        try:
            for _ in range(100):  # one may be too short to be interrupted
                index.find(search)
        except sqlite3.OperationalError:
            ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)

    assert ended.is_set()
    assert len(hits(index, "word")) == 100


def test_an_sqlite_without_fts5_is_a_typed_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "has_fts5", lambda: False)

    with pytest.raises(UnsupportedError) as caught:
        SearchIndex(tmp_path)

    assert caught.value.reason == Reason.TOOL_MISSING


def test_times_are_packed_without_loss() -> None:
    times = [(0, 0), (5, 130), (5, 130), (900, 20_000), (100_000, 86_400_000)]

    assert unpack(pack(times)) == times
    assert time_at(times, 3) == 78
    assert time_at(times, 200_000) == 86_400_000


def test_of_very_many_matches_the_last_taken_in_are_ranked(
    index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "MOST_RANKED", 3)
    index.change([recording(f"job{number}", "word " + "other " * number) for number in range(6)])

    assert jobs(index, "word") == ["job3", "job4", "job5"]
    assert jobs(index, "word", job_id="job0") == ["job0"]
