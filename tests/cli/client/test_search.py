"""search against the fake orchestrator on a real socket."""

import json

import pytest
from google.protobuf.duration import from_milliseconds

from tests.support.command import run
from tests.support.fake_orchestrator import FakeSearch, serving
from ytcaption.v1 import search_service_pb2 as pb


def hit(number: int, snippet: str = "say a word now") -> pb.SearchHit:
    return pb.SearchHit(
        job_id=f"job{number}",
        title=f"Talk {number}",
        snippet=snippet,
        matches=[pb.SnippetRange(start=6, end=10)],
        match_offset=from_milliseconds(62_500),
    )


async def test_each_passage_is_a_line_or_an_object() -> None:
    search = FakeSearch([hit(1), hit(2, "say a \x1b[31m word"), hit(3)])
    async with serving(search=search) as address:
        plain = await run("search", "a", '"b c"', "--server", address)
        as_json = await run("search", "a", "--json", "--limit", "1", "--server", address)

    assert plain.code == as_json.code == 0
    lines = plain.out.splitlines()
    assert lines[0] == "job1  00:01:02.500  Talk 1  say a word now"
    assert "\x1b" not in plain.out
    assert len(lines) == 3
    assert [one.query for one in search.asked] == ['a "b c"', 'a "b c"', "a"]
    assert json.loads(as_json.out)["job_id"] == "job1"


async def test_what_narrows_the_search_is_passed_on() -> None:
    search = FakeSearch([hit(1)])
    async with serving(search=search) as address:
        given = ("--language", "pt", "--collection", "c", "--job", "j")
        await run("search", *given, "--server", address, "--", "word", "-other")

    [asked] = search.asked
    assert (asked.query, asked.language) == ("word -other", "pt")
    assert (asked.collection_id, asked.job_id, asked.page_size) == ("c", "j", 20)


async def test_nothing_found_is_told_by_the_exit_code_as_grep_does() -> None:
    async with serving(search=FakeSearch(behind=3)) as address:
        ended = await run("search", "word", "--server", address)

    assert (ended.code, ended.out) == (1, "")
    assert "3 recordings are not in the index yet" in ended.err


@pytest.mark.parametrize("words", [(), ("--limit", "0", "word")])
async def test_a_search_without_words_is_a_usage_error(words: tuple[str, ...]) -> None:
    assert (await run("search", *words)).code == 2
