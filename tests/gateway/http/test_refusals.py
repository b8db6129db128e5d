"""Rejected requests: status, reason and message; rate limits, CSRF, CORS, security headers."""

import json
import re
from typing import Any

import httpx2
import pytest

from gateway.app import create_app
from gateway.http.limits import EXEMPT_PATHS
from gateway.http.problems import NOT_AN_OBJECT
from gateway.settings import Settings
from mesh.addresses import free_ports
from tests.gateway.conftest import GatewayFactory
from tests.support.http import running_gateway

UNKNOWN_ID = "01997b3e-6e0a-7c44-9d5f-0d3a5a3f2c11"
INVALID = ("REQUEST_INVALID",)
PROBLEM = {"type", "title", "status", "detail", "reason", "retryable", "correlation_id"}


@pytest.mark.parametrize(
    ("method", "path", "status", "reason"),
    [
        ("GET", f"/jobs/{UNKNOWN_ID}", 404, "JOB_NOT_FOUND"),
        ("GET", "/jobs/not-an-id", 404, "JOB_NOT_FOUND"),
        ("GET", f"/jobs/{UNKNOWN_ID}/events", 404, "JOB_NOT_FOUND"),
        ("GET", f"/jobs/{UNKNOWN_ID}/captions.srt", 404, "JOB_NOT_FOUND"),
        ("GET", f"/jobs/{UNKNOWN_ID}/cues", 404, "JOB_NOT_FOUND"),
        ("GET", f"/jobs/{UNKNOWN_ID}/audio", 404, "JOB_NOT_FOUND"),
        ("GET", f"/jobs/{UNKNOWN_ID}/captions.docx", 422, "REQUEST_INVALID"),
        ("POST", f"/jobs/{UNKNOWN_ID}/cancel", 404, "JOB_NOT_FOUND"),
        ("POST", f"/jobs/{UNKNOWN_ID}/retry", 404, "JOB_NOT_FOUND"),
        ("DELETE", f"/jobs/{UNKNOWN_ID}", 404, "JOB_NOT_FOUND"),
        ("POST", f"/dead-letters/{UNKNOWN_ID}/replay", 404, "DEAD_LETTER_NOT_FOUND"),
        ("DELETE", f"/dead-letters/{UNKNOWN_ID}", 404, "DEAD_LETTER_NOT_FOUND"),
        ("GET", "/dead-letters?page_token=x", 400, "REQUEST_INVALID"),
        ("GET", "/jobs?limit=0", 422, "REQUEST_INVALID"),
        ("GET", "/jobs?state=lost", 422, "REQUEST_INVALID"),
        ("POST", "/admin/factory-reset", 400, "CONFIRMATION_MISSING"),
        ("GET", "/no/such/page", 404, "PAGE_NOT_FOUND"),
        ("PUT", "/jobs", 405, "REQUEST_INVALID"),
    ],
)
async def test_a_rejection_is_a_problem_with_a_reason(
    http: httpx2.AsyncClient, method: str, path: str, status: int, reason: str
) -> None:
    answer = await http.request(method, path, headers={"X-Correlation-Id": "my-thread"})

    problem = answer.json()
    assert (answer.status_code, problem["reason"]) == (status, reason)
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert problem.keys() >= PROBLEM
    assert problem["status"] == status
    assert problem["correlation_id"] == answer.headers["X-Correlation-Id"] == "my-thread"


def _routes_with_parameters() -> list[tuple[str, str]]:
    paths = create_app(Settings()).openapi()["paths"]
    return [
        (verb.upper(), re.sub(r"\{format\}", "srt", path))
        for path, verbs in paths.items()
        for verb, operation in verbs.items()
        if "health" not in operation["tags"]
    ]


@pytest.mark.parametrize(("method", "path"), _routes_with_parameters())
async def test_an_unknown_parameter_is_rejected_not_ignored(
    http: httpx2.AsyncClient, method: str, path: str
) -> None:
    url = re.sub(r"\{\w+\}", UNKNOWN_ID, path)

    answer = await http.request(method, f"{url}?limt=1")

    assert answer.status_code == 422
    if method != "HEAD":
        problem = answer.json()
        assert (problem["reason"], problem["field"]) == ("REQUEST_INVALID", "limt")


@pytest.mark.parametrize(
    ("body", "status", "reason", "field"),
    [
        ({}, 422, "REQUEST_INVALID", "youtube_url"),
        ({"youtube_url": 7}, 422, "REQUEST_INVALID", "youtube_url"),
        ({"youtube_url": "https://x.test/", "tubes": 1}, 422, "REQUEST_INVALID", "tubes"),
        (
            {"youtube_url": "https://x.test/", "cue_rules": {"max_lines": 9}},
            *(422, "REQUEST_INVALID", "cue_rules.max_lines"),
        ),
        ({"youtube_url": "ftp://x.test/"}, 400, "UNSUPPORTED_URL", None),
        (
            {"youtube_url": "https://x.test/", "language": "klingon"},
            *(400, "LANGUAGE_UNKNOWN", None),
        ),
        (
            {"youtube_url": "https://x.test/", "language_out": "pt"},
            *(422, "TRANSLATION_UNSUPPORTED", None),
        ),
        ({"youtube_url": "https://x.test/\ud800"}, 422, "REQUEST_INVALID", "youtube_url"),
        ({"youtube_url": "https://x.test/", "beam_size": "\ud800"}, 422, *INVALID, "beam_size"),
    ],
)
async def test_an_invalid_job_request_is_rejected_at_submission(
    http: httpx2.AsyncClient, body: dict[str, Any], status: int, reason: str, field: str | None
) -> None:
    content = json.dumps(body)  # as ASCII: a lone surrogate cannot be sent otherwise
    json_type = {"Content-Type": "application/json"}

    problem = (await http.post("/pipeline", content=content, headers=json_type)).json()

    assert (problem["status"], problem["reason"]) == (status, reason), problem
    assert problem.get("field") == field


@pytest.mark.parametrize(
    ("content", "kind", "detail"),
    [
        ('{"youtube_url": ', "application/json", "the body is not JSON: Expecting value"),
        ("{}", "application/x-www-form-urlencoded", NOT_AN_OBJECT),
        ("", "application/json", NOT_AN_OBJECT),
        ("[]", "application/json", NOT_AN_OBJECT),
        ('{"lang": "en"}', "application/json", "youtube_url: Field required"),
        (
            '{"youtube_url": "https://x.test/", "lang": "en"}',
            *("application/json", "lang: there is no such field"),
        ),
    ],
)
async def test_a_malformed_body_is_rejected_with_what_is_wrong(
    http: httpx2.AsyncClient, content: str, kind: str, detail: str
) -> None:
    answer = await http.post("/pipeline", content=content, headers={"Content-Type": kind})

    problem = answer.json()
    assert (answer.status_code, problem["detail"]) == (422, detail)
    assert problem.get("field") == (detail.partition(":")[0] if "field" in detail.lower() else None)


@pytest.mark.parametrize(
    ("method", "path", "detail"),
    [
        ("GET", "/jobz?x=1", "GET /jobz: not found; see /docs"),
        ("PUT", "/jobs", "PUT /jobs: method not allowed; see /docs"),
    ],
)
async def test_a_rejection_by_the_router_names_the_route(
    http: httpx2.AsyncClient, method: str, path: str, detail: str
) -> None:
    assert (await http.request(method, path)).json()["detail"] == detail


async def test_a_body_that_is_not_json_or_too_long_is_rejected(http: httpx2.AsyncClient) -> None:
    json_type = {"Content-Type": "application/json"}

    broken = await http.post("/pipeline", headers=json_type, content=b'{"youtube_url": ')
    long = await http.post("/pipeline", headers=json_type, content=b" " * 2_000_000)

    assert (broken.status_code, broken.json()["reason"]) == (422, "REQUEST_INVALID")
    assert (long.status_code, long.json()["reason"]) == (413, "TOO_LARGE")


async def test_without_an_orchestrator_requests_get_503_with_the_reason() -> None:
    async with running_gateway(orchestrator=f"127.0.0.1:{free_ports(1)[0]}") as http:
        answer = await http.get("/jobs")
        health = await http.get("/health")
        alive = await http.get("/live")

    assert answer.status_code == 503
    assert (
        answer.json().items()
        >= {
            "reason": "STAGE_UNAVAILABLE",
            "retryable": True,
            "detail": "the orchestrator does not answer",
        }.items()
    )
    assert int(answer.headers["Retry-After"]) >= 1
    assert health.status_code == 503
    assert health.json()["status"] == "unhealthy"
    assert health.json()["microservices"].keys() >= {"video-downloader", "audio-transcriber"}
    assert alive.status_code == 200


async def test_a_client_over_the_rate_limit_gets_429_with_retry_after(
    start_gateway: GatewayFactory,
) -> None:
    async with start_gateway(rate_per_second=0.01, rate_burst=3) as http:
        answers = [await http.get("/jobs") for _ in range(4)]
        exempt = [await http.get(path) for path in sorted(EXEMPT_PATHS)]

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[3].json()["reason"] == "RATE_LIMITED"
    assert 1 <= int(answers[3].headers["Retry-After"]) <= 100
    assert [answer.status_code for answer in exempt] == [200, 200, 200]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.test"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "null", "Sec-Fetch-Site": "none"},
        {"Origin": "https://evil.test", "Sec-Fetch-Site": "same-origin"},
    ],
)
async def test_a_cross_site_page_may_change_nothing(
    http: httpx2.AsyncClient, headers: dict[str, str]
) -> None:
    for method, path in (("POST", f"/jobs/{UNKNOWN_ID}/cancel"), ("DELETE", "/dead-letters")):
        answer = await http.request(method, path, headers=headers)

        assert (answer.status_code, answer.json()["reason"]) == (403, "REQUEST_INVALID")


async def test_the_gateways_own_page_may_change_things(http: httpx2.AsyncClient) -> None:
    for origin in (str(http.base_url).rstrip("/"), "null"):  # a form of a page without referrer
        own = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}

        answer = await http.post(f"/jobs/{UNKNOWN_ID}/cancel", headers=own)

        assert answer.status_code == 404


async def test_a_foreign_host_name_is_rejected(http: httpx2.AsyncClient) -> None:
    """DNS rebinding would let a page read everything under its own host name."""
    foreign = await http.get("/jobs", headers={"Host": "rebound.test"})
    local = await http.get("/jobs", headers={"Host": "localhost:8000"})

    assert (foreign.status_code, local.status_code) == (403, 200)


async def test_other_origins_may_read_responses_only_if_the_operator_allows_them(
    http: httpx2.AsyncClient, start_gateway: GatewayFactory
) -> None:
    preflight = {"Origin": "https://app.test", "Access-Control-Request-Method": "POST"}

    closed = await http.options("/pipeline", headers=preflight)
    plain = await http.get("/jobs", headers={"Origin": "https://app.test"})
    async with start_gateway(cors_origins="https://app.test") as opened:
        allowed = await opened.options("/pipeline", headers=preflight)
        done = await opened.post(
            f"/jobs/{UNKNOWN_ID}/cancel", headers={"Origin": "https://app.test"}
        )
        other = await opened.get("/jobs", headers={"Origin": "https://evil.test"})

    assert "access-control-allow-origin" not in closed.headers | plain.headers | other.headers
    assert allowed.headers["access-control-allow-origin"] == "https://app.test"
    assert done.status_code == 404
    assert done.headers["access-control-allow-origin"] == "https://app.test"


@pytest.mark.parametrize("path", ["/jobs", "/no/such/page", "/docs", "/docs/start.js"])
async def test_every_response_has_security_headers(http: httpx2.AsyncClient, path: str) -> None:
    headers = (await http.get(path)).headers

    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Correlation-Id"]


async def test_the_api_reference_loads_nothing_from_other_hosts(http: httpx2.AsyncClient) -> None:
    page = await http.get("/docs")
    again = await http.get("/docs/start.js")
    known = await http.get("/docs/start.js", headers={"If-None-Match": again.headers["ETag"]})

    assert page.headers["Content-Type"].startswith("text/html")
    assert "://" not in page.text
    for asset in ("swagger-ui.css", "swagger-ui-bundle.js"):
        assert f"/docs/assets/{asset}" in page.text
        assert (await http.get(f"/docs/assets/{asset}")).status_code == 200
    assert again.headers["Cache-Control"] == "no-cache"
    assert known.status_code == 304
