"""Files over HTTP: as a body, in pieces, in a form; and those that are refused or break off."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import httpx2
import pytest

from tests.client import Client
from tests.conftest import DATA
from tests.gateway.conftest import Gateways
from tests.gateway.http import settled
from tests.polling import until

SPEECH = (DATA / "short.ogg").read_bytes()


async def _pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_a_body_becomes_a_job_byte_for_byte(http: httpx2.AsyncClient, client: Client) -> None:
    named = {"file_name": "talk.ogg", "language": "en", "max_lines": "1", "beam_size": "2"}

    accepted = await http.post("/uploads", params=named, content=SPEECH)
    job_id = accepted.json()["job_id"]
    job = await client.job(job_id)

    assert accepted.status_code == 202
    assert accepted.headers["Location"] == f"/jobs/{job_id}"
    assert job.source.upload.sha256 == sha256(SPEECH).hexdigest()
    assert job.source.upload.file_name == "talk.ogg"
    assert (job.options.language, job.options.beam_size) == ("en", 2)
    assert job.options.cue_rules.max_lines == 1
    assert (await settled(http, job_id))["status"] == "completed"


async def test_a_body_of_unknown_size_is_taken_in_pieces(
    http: httpx2.AsyncClient, client: Client
) -> None:
    pieces = [SPEECH[at : at + 1000] for at in range(0, len(SPEECH), 1000)]

    accepted = await http.post("/uploads", content=_pieces(*pieces))

    job = await client.job(accepted.json()["job_id"])
    assert job.source.upload.sha256 == sha256(SPEECH).hexdigest()


async def test_frames_are_cut_to_what_the_orchestrator_takes(
    http: httpx2.AsyncClient, client: Client
) -> None:
    large = SPEECH + bytes(3_000_000)

    accepted = await http.post("/uploads", content=_pieces(large))

    job = await client.job(accepted.json()["job_id"])
    assert job.source.upload.size_bytes == len(large)
    assert job.source.upload.sha256 == sha256(large).hexdigest()


@pytest.mark.parametrize("padding", [0, 200_000])
async def test_a_form_is_taken_apart_as_it_comes(
    http: httpx2.AsyncClient, client: Client, padding: int
) -> None:
    body = SPEECH + b"\r\n--not the boundary" * (padding // 20)
    form = {"file": ("talk.ogg", body, "audio/ogg")}

    accepted = await http.post(
        "/uploads", params={"word_timestamps": "true"}, data={"language": "en"}, files=form
    )

    assert accepted.status_code == 202, accepted.text
    job = await client.job(accepted.json()["job_id"])
    assert job.source.upload.sha256 == sha256(body).hexdigest()
    assert job.source.upload.file_name == "talk.ogg"
    assert (job.options.language, job.options.word_timestamps) == ("en", True)


BOUNDARY = "form-data; name="


def _form(*parts: tuple[str, bytes]) -> tuple[dict[str, str], bytes]:
    body = b"".join(
        b"--B\r\nContent-Disposition: form-data; " + head.encode() + b"\r\n\r\n" + data + b"\r\n"
        for head, data in parts
    )
    return {"Content-Type": "multipart/form-data; boundary=B"}, body + b"--B--\r\n"


FILE = ('name="file"; filename="a.ogg"', SPEECH)


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ([('name="language"', b"en")], "file"),
        ([FILE, ('name="language"', b"en")], "language"),
        ([('name="beam_size"', b"many"), FILE], "beam_size"),
        ([('name="no_such_option"', b"1"), FILE], "no_such_option"),
    ],
)
async def test_a_form_that_cannot_be_meant_is_refused(
    http: httpx2.AsyncClient, parts: list[tuple[str, bytes]], field: str
) -> None:
    headers, body = _form(*parts)

    answer = await http.post("/uploads", headers=headers, content=body)

    assert (answer.status_code, answer.json()["field"]) == (422, field), answer.text


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=B", b"this is no form"),
        ("multipart/form-data; boundary=B", _form(FILE)[1][:-100]),
        ("multipart/form-data; boundary=B", _form(('name="a"', bytes(70_000)), FILE)[1]),
    ],
)
async def test_what_is_no_form_or_breaks_off_makes_no_job(
    http: httpx2.AsyncClient, content_type: str, body: bytes
) -> None:
    before = (await http.get("/jobs")).json()["total"]

    answer = await http.post("/uploads", headers={"Content-Type": content_type}, content=body)

    assert answer.status_code in (413, 422)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert (await http.get("/jobs")).json()["total"] == before


async def test_an_empty_body_is_refused_as_the_orchestrator_says(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/uploads", content=b"")

    assert (answer.status_code, answer.json()["reason"]) == (400, "EMPTY_MEDIA")


async def test_a_file_over_the_limit_is_refused_announced_or_not(gateways: Gateways) -> None:
    async with gateways(max_upload_bytes=100_000) as http:
        announced = await http.post("/uploads", content=bytes(200_000))
        counted = await http.post("/uploads", content=_pieces(*[bytes(10_000)] * 20))

    for answer in (announced, counted):
        assert (answer.status_code, answer.json()["reason"]) == (413, "TOO_LARGE")


async def test_options_no_job_can_have_are_told_while_the_file_is_still_coming(
    http: httpx2.AsyncClient,
) -> None:
    named = {"mixed_languages": "true", "language": "en"}

    answer = await http.post("/uploads", params=named, content=_pieces(*[bytes(65_536)] * 64))

    assert (answer.status_code, answer.json()["reason"]) == (400, "REQUEST_INVALID")
    assert "mixed_languages" in answer.json()["detail"]


async def test_a_client_that_goes_away_leaves_no_job(
    http: httpx2.AsyncClient, real_mesh: Any
) -> None:
    before = (await http.get("/jobs")).json()["total"]
    host, port = real_mesh.http.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /uploads HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000000\r\n\r\n"
    writer.write(head.encode() + SPEECH)
    await writer.drain()
    await _until_metric(http, "ytcaption_http_requests_open 2.0")  # it, and the one that asks
    writer.close()

    await _until_metric(http, "ytcaption_http_requests_open 1.0")
    assert (await http.get("/jobs")).json()["total"] == before


async def _until_metric(http: httpx2.AsyncClient, line: str) -> None:
    async def told() -> bool:
        return line in (await http.get("/metrics")).text.splitlines()

    await until(told)
