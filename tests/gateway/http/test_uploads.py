"""Uploads: as a body, chunked, in a form; rejected and interrupted ones."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import httpx2
import pytest

from tests.conftest import DATA
from tests.gateway.conftest import GatewayFactory
from tests.support.client import Client
from tests.support.http import ended_job
from tests.support.polling import until

SPEECH = (DATA / "short.ogg").read_bytes()


async def _chunks(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_a_body_becomes_a_job_byte_for_byte(http: httpx2.AsyncClient, client: Client) -> None:
    query = {"file_name": "talk.ogg", "language": "en", "max_lines": "1", "beam_size": "2"}

    accepted = await http.post("/uploads", params=query, content=SPEECH)
    job_id = accepted.json()["job_id"]
    job = await client.job(job_id)

    assert accepted.status_code == 202
    assert accepted.headers["Location"] == f"/jobs/{job_id}"
    assert job.source.upload.sha256 == sha256(SPEECH).hexdigest()
    assert job.source.upload.file_name == "talk.ogg"
    assert (job.options.language, job.options.beam_size) == ("en", 2)
    assert job.options.cue_rules.max_lines == 1
    assert (await ended_job(http, job_id))["status"] == "completed"


async def test_a_body_without_a_length_is_accepted_in_chunks(
    http: httpx2.AsyncClient, client: Client
) -> None:
    chunks = [SPEECH[at : at + 1000] for at in range(0, len(SPEECH), 1000)]

    accepted = await http.post("/uploads", content=_chunks(*chunks))

    job = await client.job(accepted.json()["job_id"])
    assert job.source.upload.sha256 == sha256(SPEECH).hexdigest()


async def test_large_chunks_are_split_to_the_frame_size_of_the_orchestrator(
    http: httpx2.AsyncClient, client: Client
) -> None:
    large = SPEECH + bytes(3_000_000)

    accepted = await http.post("/uploads", content=_chunks(large))

    job = await client.job(accepted.json()["job_id"])
    assert job.source.upload.size_bytes == len(large)
    assert job.source.upload.sha256 == sha256(large).hexdigest()


@pytest.mark.parametrize("padding", [0, 200_000])
async def test_a_form_is_parsed_as_it_arrives(
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
async def test_an_invalid_form_is_rejected_with_its_field(
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
async def test_a_malformed_or_incomplete_form_creates_no_job(
    http: httpx2.AsyncClient, content_type: str, body: bytes
) -> None:
    before = (await http.get("/jobs")).json()["total"]

    answer = await http.post("/uploads", headers={"Content-Type": content_type}, content=body)

    assert answer.status_code in (413, 422)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert (await http.get("/jobs")).json()["total"] == before


async def test_an_empty_body_is_rejected_with_the_reason_of_the_orchestrator(
    http: httpx2.AsyncClient,
) -> None:
    answer = await http.post("/uploads", content=b"")

    assert (answer.status_code, answer.json()["reason"]) == (400, "EMPTY_MEDIA")


async def test_a_file_over_the_limit_is_rejected_with_and_without_a_content_length(
    start_gateway: GatewayFactory,
) -> None:
    async with start_gateway(max_upload_bytes=100_000) as http:
        announced = await http.post("/uploads", content=bytes(200_000))
        counted = await http.post("/uploads", content=_chunks(*[bytes(10_000)] * 20))

    for answer in (announced, counted):
        assert (answer.status_code, answer.json()["reason"]) == (413, "TOO_LARGE")


async def test_invalid_options_are_rejected_while_the_file_is_still_arriving(
    http: httpx2.AsyncClient,
) -> None:
    query = {"mixed_languages": "true", "language": "en"}

    answer = await http.post("/uploads", params=query, content=_chunks(*[bytes(65_536)] * 64))

    assert (answer.status_code, answer.json()["reason"]) == (400, "REQUEST_INVALID")
    assert "mixed_languages" in answer.json()["detail"]


@pytest.mark.parametrize(
    "query", ["languages=en&languages=pt", "languages=en,pt"], ids=["repeated", "with commas"]
)
async def test_a_list_in_the_query_may_be_repeated_or_have_commas(
    http: httpx2.AsyncClient, client: Client, query: str
) -> None:
    accepted = await http.post(f"/uploads?{query}", content=SPEECH)

    job = await client.job(accepted.json()["job_id"])
    assert list(job.options.languages) == ["en", "pt"]


async def test_a_list_in_a_form_has_commas(http: httpx2.AsyncClient, client: Client) -> None:
    accepted = await http.post(
        "/uploads", data={"languages": "en, pt"}, files={"file": ("talk.ogg", SPEECH)}
    )

    job = await client.job(accepted.json()["job_id"])
    assert list(job.options.languages) == ["en", "pt"]


async def test_a_client_that_disconnects_creates_no_job(
    http: httpx2.AsyncClient, real_mesh: Any
) -> None:
    before = (await http.get("/jobs")).json()["total"]
    host, port = real_mesh.http.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /uploads HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000000\r\n\r\n"
    writer.write(head.encode() + SPEECH)
    await writer.drain()
    await _until_metric(http, "ytcaption_http_requests_open 2.0")  # the upload, and this request
    writer.close()

    await _until_metric(http, "ytcaption_http_requests_open 1.0")
    assert (await http.get("/jobs")).json()["total"] == before


async def _until_metric(http: httpx2.AsyncClient, line: str) -> None:
    async def shown() -> bool:
        return line in (await http.get("/metrics")).text.splitlines()

    await until(shown)
