"""HTTP mechanics: statuses, file headers, ranges, rate limits, host names."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from gateway.http.file_responses import (
    RangeNotSatisfiableError,
    content_disposition,
    parse_range,
    safe_file_name,
)
from gateway.http.limits import TokenBuckets, client_of
from gateway.http.problems import REASON_STATUSES, STATUSES, RefusedError, status_of
from gateway.http.security import SecurityMiddleware
from gateway.settings import Settings
from mesh import errors
from mesh.reasons import Reason
from mesh.status import CODES


def test_every_grpc_code_of_our_errors_has_an_http_status() -> None:
    assert set(CODES.values()) == set(STATUSES)
    assert all(400 <= status < 600 for status in (*STATUSES.values(), *REASON_STATUSES.values()))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.InvalidRequestError("", reason=Reason.REQUEST_INVALID), 400),
        (errors.UnusableMediaError("", reason=Reason.EMPTY_MEDIA), 400),
        (errors.NotFoundError("", reason=Reason.JOB_NOT_FOUND), 404),
        (errors.SourceRefusedError("", reason=Reason.JOB_NOT_ENDED), 409),
        (errors.LimitExceededError("", reason=Reason.TOO_LARGE), 413),
        (errors.UnsupportedError("", reason=Reason.OPTION_UNSUPPORTED), 422),
        (errors.LimitExceededError("", reason=Reason.TOO_LONG), 429),
        (errors.UnavailableError("", reason=Reason.STORAGE_UNAVAILABLE), 503),
        (errors.TimedOutError("", reason=Reason.DEADLINE), 504),
        (errors.LimitExceededError("", reason=Reason.STORAGE_FULL), 507),
        (RefusedError(416, ""), 416),
    ],
)
def test_an_error_has_the_http_status_of_its_code_or_reason(
    error: errors.MeshError, status: int
) -> None:
    assert status_of(error) == status


@given(st.text(max_size=300))
def test_no_file_name_breaks_out_of_its_header(name: str) -> None:
    header = content_disposition(name, "captions.srt", attachment=True)

    assert header.isascii()
    assert header.isprintable()
    assert header.count('"') == 2
    assert safe_file_name(name, "captions.srt")


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("talk.srt", "talk.srt"),
        ("a\r\nb.srt", "ab.srt"),
        ("evil\u202etrs.exe.srt", "eviltrs.exe.srt"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("...", "fallback.srt"),
        (".srt", "srt"),
        ("Über größer.srt", "Über größer.srt"),
    ],
)
def test_a_safe_file_name_stays_readable(name: str, safe: str) -> None:
    assert safe_file_name(name, "fallback.srt") == safe


@given(st.integers(1, 50), st.integers(0, 60), st.integers(0, 60))
def test_a_range_is_always_within_the_file(size: int, first: int, last: int) -> None:
    try:
        span = parse_range(f"bytes={first}-{last}", size)
    except RangeNotSatisfiableError:
        assert first >= size
        return
    if span is None:
        assert last < first
    else:
        assert list(range(size))[first : last + 1] == list(range(span.first, span.last + 1))


def test_a_token_bucket_refills_with_time_and_is_not_shared() -> None:
    buckets = TokenBuckets(rate=2, burst=2)

    taken = [buckets.take("a", 0.0) for _ in range(3)]

    assert taken == [0, 0, 0.5]
    assert buckets.take("b", 0.0) == 0
    assert buckets.take("a", 0.5) == 0
    assert buckets.take("a", 0.5) > 0


@pytest.mark.parametrize(
    ("address", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
    ],
)
def test_a_client_is_an_ipv4_address_or_an_ipv6_network(
    address: str, other: str, same: bool
) -> None:
    assert (client_of({"client": (address, 1)}) == client_of({"client": (other, 1)})) is same


@pytest.mark.parametrize(
    ("listen", "hosts", "host", "allowed"),
    [
        ("127.0.0.1:8000", "", "localhost:8000", True),
        ("127.0.0.1:8000", "", "[::1]:8000", True),
        ("127.0.0.1:8000", "", "evil.test", False),
        ("127.0.0.1:8000", "", "", False),
        ("0.0.0.0:8000", "", "anything.test", False),
        ("0.0.0.0:8000", "", "", False),
        ("0.0.0.0:8000", "", "10.1.2.3:8000", True),
        ("0.0.0.0:8000", "", "[2001:db8::1]:8000", True),
        ("0.0.0.0:8000", "", socket.gethostname(), True),
        ("0.0.0.0:8000", "*", "anything.test", True),
        ("0.0.0.0:8000", "captions.test", "CAPTIONS.test:80", True),
        ("0.0.0.0:8000", "captions.test", "evil.test", False),
    ],
)
def test_only_allowed_host_names_are_answered(
    listen: str, hosts: str, host: str, allowed: bool
) -> None:
    async def nothing(*_: object) -> None: ...

    middleware = SecurityMiddleware(nothing, Settings(listen=listen, hosts=hosts))

    assert (
        middleware._refusal({"method": "GET", "path": "/jobs"}, Headers({"host": host})) is None
    ) is allowed
