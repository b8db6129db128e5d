"""Searches over HTTP."""

import httpx2
import pytest

from tests.support.polling import until


async def test_a_passage_says_where_when_and_where_to_listen(
    http: httpx2.AsyncClient, finished_job: dict[str, object]
) -> None:
    async def is_found() -> bool:
        return bool((await http.get("/search", params={"q": "word"})).json()["hits"])

    await until(is_found)

    found = (await http.get("/search", params={"q": '"word 3"', "limit": 5})).json()

    [hit] = found["hits"]
    job_id = finished_job["job_id"]
    assert hit["job_id"] == job_id
    assert (hit["start"], hit["end"], hit["translated"]) == (0, 6, False)
    assert 2 <= hit["at"] < 2.5
    assert hit["url"] == f"/#/job/{job_id}?t={hit['at']:g}"
    [match] = hit["matches"]
    assert hit["snippet"][match["start"] : match["end"]] == "word 3"
    assert (found["indexed"], found["behind"], found["next_page_token"]) == (1, 0, "")
    assert (await http.get("/search", params={"q": "word", "language": "pt"})).json()["hits"] == []


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"q": ""},
        {"q": "w" * 501},
        {"q": "-word"},
        {"q": "word", "limit": 0},
        {"q": "w", "x": 1},
    ],
)
async def test_a_search_that_cannot_be_is_a_problem(
    http: httpx2.AsyncClient, params: dict[str, str]
) -> None:
    answer = await http.get("/search", params=params)

    assert answer.status_code in (400, 422)
    assert answer.json()["reason"] == "REQUEST_INVALID"
