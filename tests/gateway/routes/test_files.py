"""Captions and stored audio: formats, file names, ranges, conditional requests."""

from typing import Any

import httpx2
import pytest

from tests.conftest import DATA
from tests.support.http import ended_job

TYPES = {
    "srt": "application/x-subrip",
    "vtt": "text/vtt",
    "txt": "text/plain",
    "json": "application/json",
    "tsv": "text/tab-separated-values",
}
HOSTILE = 'a"; filename="evil.exe\r\nX-Evil: yes\u202egpj.\u2066<b>%22\\/.ogg'


@pytest.fixture(scope="module")
async def audio(real_mesh: Any, finished_job: dict[str, Any]) -> tuple[str, bytes]:
    """URL of the stored audio, and its bytes."""
    url = f"{real_mesh.http}{finished_job['audio_url']}"
    async with httpx2.AsyncClient(timeout=60) as client:
        answer = await client.get(url)
    assert answer.headers["Content-Length"] == str(len(answer.content))
    return url, answer.content


@pytest.mark.parametrize("name", TYPES)
async def test_captions_come_in_every_format(
    http: httpx2.AsyncClient, finished_job: dict[str, Any], name: str
) -> None:
    answer = await http.get(f"/jobs/{finished_job['job_id']}/captions.{name}")

    assert answer.headers["Content-Type"].startswith(TYPES[name])
    assert "weather" in answer.text
    assert answer.headers["Content-Disposition"] == f'inline; filename="short.{name}"'
    assert answer.headers["X-Captions-Complete"] == "true"


async def test_cues_keep_to_the_limits_asked_for(
    http: httpx2.AsyncClient, finished_job: dict[str, Any]
) -> None:
    path = f"/jobs/{finished_job['job_id']}/cues"

    usual = (await http.get(path)).json()
    narrow = (await http.get(path, params={"max_line_length": 10, "max_lines": 1})).json()

    assert [cue["index"] for cue in usual] == list(range(len(usual)))
    assert usual[0].keys() == {"index", "start", "end", "lines", "text"}
    assert (
        " ".join(line for cue in usual for line in cue["lines"])
        == finished_job["transcription_text"]
    )
    assert len(narrow) > len(usual)
    assert all(len(line) <= 10 for cue in narrow for line in cue["lines"])


async def test_captions_without_a_translation_are_not_found(
    http: httpx2.AsyncClient, finished_job: dict[str, Any]
) -> None:
    answer = await http.get(
        f"/jobs/{finished_job['job_id']}/captions.srt", params={"translated": "true"}
    )

    assert (answer.status_code, answer.json()["reason"]) == (404, "NOT_TRANSLATED")


async def test_a_hostile_file_name_cannot_break_out_of_its_header(http: httpx2.AsyncClient) -> None:
    body = (DATA / "short.ogg").read_bytes()
    accepted = await http.post("/uploads", params={"file_name": HOSTILE}, content=body)
    job = await ended_job(http, accepted.json()["job_id"])

    answer = await http.get(f"/jobs/{job['job_id']}/captions.srt", params={"download": "true"})

    disposition = answer.headers["Content-Disposition"]
    assert disposition.startswith('attachment; filename="')
    assert disposition.count('"') == 2
    assert disposition.endswith('.srt"')
    assert not set("\\/<>%\u202e\u2066") & set(disposition)
    assert "X-Evil" not in answer.headers


@pytest.mark.parametrize(
    ("range_header", "first", "last"),
    [("bytes=0-0", 0, 0), ("bytes=10-19", 10, 19), ("bytes=100-", 100, -1), ("bytes=-7", -7, -1)],
)
async def test_a_range_is_exactly_the_bytes_asked_for(
    http: httpx2.AsyncClient, audio: tuple[str, bytes], range_header: str, first: int, last: int
) -> None:
    url, whole = audio
    begin, end = first % len(whole), last % len(whole)

    answer = await http.get(url, headers={"Range": range_header})

    assert answer.status_code == 206
    assert answer.content == whole[begin : end + 1]
    assert answer.headers["Content-Range"] == f"bytes {begin}-{end}/{len(whole)}"
    assert answer.headers["Content-Length"] == str(len(answer.content))


async def test_a_range_beyond_the_file_is_rejected(
    http: httpx2.AsyncClient, audio: tuple[str, bytes]
) -> None:
    url, whole = audio

    answer = await http.get(url, headers={"Range": f"bytes={len(whole)}-"})

    assert answer.status_code == 416
    assert answer.headers["Content-Range"] == f"bytes */{len(whole)}"
    assert answer.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize("nonsense", ["lines=1-2", "bytes=5-2", "bytes=0-1,4-5", "bytes=-", "x"])
async def test_a_malformed_range_returns_the_whole_file(
    http: httpx2.AsyncClient, audio: tuple[str, bytes], nonsense: str
) -> None:
    url, whole = audio

    answer = await http.get(url, headers={"Range": nonsense})

    assert (answer.status_code, answer.content) == (200, whole)


async def test_head_and_matching_etags_send_no_body(
    http: httpx2.AsyncClient, audio: tuple[str, bytes]
) -> None:
    url, whole = audio
    head = await http.head(url)
    tag = head.headers["ETag"]

    known = await http.get(url, headers={"If-None-Match": tag})
    same = await http.get(url, headers={"Range": "bytes=0-4", "If-Range": tag})
    other = await http.get(url, headers={"Range": "bytes=0-4", "If-Range": '"older"'})
    partial = await http.head(url, headers={"Range": "bytes=0-4"})

    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Content-Length"] == str(len(whole))
    assert head.headers["Accept-Ranges"] == "bytes"
    assert (known.status_code, known.content) == (304, b"")
    assert (same.status_code, same.content) == (206, whole[:5])
    assert (other.status_code, other.content) == (200, whole)
    assert (partial.status_code, partial.headers["Content-Length"]) == (206, "5")


async def test_a_job_without_audio_is_a_404_with_the_reason(
    http: httpx2.AsyncClient, site: Any
) -> None:
    page = site.page("/text-only.txt", b"no sound here", "text/plain")
    accepted = await http.post("/pipeline", json={"youtube_url": page})
    job = await ended_job(http, accepted.json()["job_id"])

    answer = await http.get(f"/jobs/{job['job_id']}/audio")

    assert job["audio_file"] is None
    assert (answer.status_code, answer.json()["reason"]) == (404, "ARTIFACT_NOT_FOUND")
