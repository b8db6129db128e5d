"""Searches over HTTP."""

from typing import Any

import httpx2
import pytest

from tests.support.polling import until


async def test_a_passage_says_where_when_and_where_to_listen(
    http: httpx2.AsyncClient, finished_job: dict[str, Any]
) -> None:
    first = finished_job["transcription_segments"][0]
    params = {"q": f'"{first["text"].strip()}"', "job_id": finished_job["job_id"]}

    async def is_found() -> bool:
        return bool((await http.get("/search", params=params)).json()["hits"])

    await until(is_found)

    found = (await http.get("/search", params=params | {"limit": 5})).json()

    [hit] = found["hits"]
    job_id = finished_job["job_id"]
    assert hit["job_id"] == job_id
    assert hit["at"] == hit["start"] == pytest.approx(first["start"], abs=0.01)
    assert hit["end"] > hit["start"]
    assert hit["url"] == f"/#/job/{job_id}?t={hit['at']:g}"
    [match] = hit["matches"]
    assert hit["snippet"][match["start"] : match["end"]] == first["text"].strip().rstrip(".")
    assert found["indexed"] >= 1
    assert (found["next_page_token"], hit["translated"]) == ("", False)
    other = params | {"language": "pt"}
    assert (await http.get("/search", params=other)).json()["hits"] == []


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
