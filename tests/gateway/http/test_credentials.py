"""The session cookie, and which credential of a request is passed on."""

from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from gateway.http.credentials import (
    CredentialsMiddleware,
    OpenLogin,
    cookie_name,
    forget_login,
    forget_session,
    login_of,
    set_login,
    set_session,
)
from mesh.bearer import CLIENT_KEY, bearer_metadata

COOKIE = "ytcaption-session-8000"


def scope(scheme: str = "http", host: str = "127.0.0.1:8000", **headers: str) -> dict[str, Any]:
    named = {"host": host, **headers}
    return {
        "type": "http",
        "method": "GET",
        "path": "/jobs",
        "scheme": scheme,
        "client": ("192.0.2.7", 5),
        "headers": [(key.encode(), value.encode()) for key, value in named.items()],
    }


async def passed_on(asked: dict[str, Any]) -> tuple[tuple[str, str], ...] | int:
    """The metadata of calls for this request; or the status of a refusal."""
    found: list[Any] = []

    async def app(_: Scope, __: Receive, ___: Send) -> None:
        found.append(bearer_metadata())

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            found.append(message["status"])

    async def receive() -> Message:
        return {"type": "http.request"}

    await CredentialsMiddleware(app)(asked, receive, send)
    (only,) = found
    return only  # type: ignore[no-any-return] # one of both


@pytest.mark.parametrize(
    ("scheme", "host", "name"),
    [
        ("http", "127.0.0.1:8000", "ytcaption-session-8000"),
        ("http", "[::1]:8000", "ytcaption-session-8000"),
        ("http", "localhost", "ytcaption-session"),
        ("https", "captions.example", "__Host-ytcaption-session"),
        ("https", "captions.example:8443", "__Host-ytcaption-session-8443"),
    ],
)
def test_a_cookie_is_of_one_port_and_with_tls_of_one_host(
    scheme: str, host: str, name: str
) -> None:
    assert cookie_name(scope(scheme, host)) == name


def test_a_begun_login_comes_back_from_the_providers_site_with_its_place() -> None:
    login = OpenLogin("a-secret_of_43", "#/jobs?q=a%20b")
    for scheme, name in (
        ("http", "ytcaption-login-8000"),
        ("https", "__Host-ytcaption-login-8000"),
    ):
        kept, gone = Response(), Response()
        set_login(scope(scheme), kept, login, 600)
        forget_login(scope(scheme), gone)

        pair, *attributes = kept.headers["set-cookie"].split("; ")
        assert pair.startswith(f"{name}=")
        assert {"HttpOnly", "Max-Age=600", "Path=/", "SameSite=lax"} <= set(attributes)
        assert ("Secure" in attributes) is (scheme == "https")
        assert login_of(Request(scope(scheme, cookie=pair))) == login
        assert "Max-Age=0" in gone.headers["set-cookie"]

    planted = f"ytcaption-login-8000={login.secret}.https%3A%2F%2Fevil.example"
    assert login_of(Request(scope(cookie=planted))).place == ""
    assert login_of(Request(scope())) == OpenLogin("", "")


def test_scripts_and_other_sites_do_not_get_the_cookie() -> None:
    for change in (lambda at, to: set_session(at, to, "ytc_1", 60), forget_session):
        plain, encrypted = Response(), Response()
        change(scope("http"), plain)
        change(scope("https"), encrypted)
        for response in (plain, encrypted):
            cookie = response.headers["set-cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=strict" in cookie
            assert "Path=/" in cookie
            assert "Domain" not in cookie
        assert "Secure" not in plain.headers["set-cookie"]
        assert "Secure" in encrypted.headers["set-cookie"]
        assert encrypted.headers["set-cookie"].startswith("__Host-")


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({}, ""),
        ({"authorization": "Bearer ytc_1"}, "ytc_1"),
        ({"authorization": "bearer  ytc_1 "}, "ytc_1"),
        ({"authorization": "Basic eDp5"}, ""),
        ({"authorization": "Bearer"}, ""),
        ({"cookie": f"{COOKIE}=ytc_2"}, "ytc_2"),
        ({"cookie": f"bad[; {COOKIE}=ytc_2"}, "ytc_2"),
        ({"cookie": f"{COOKIE}=a b"}, ""),
        ({"cookie": "ytcaption-session-9000=ytc_2"}, ""),
        ({"authorization": "Bearer ytc_1", "cookie": f"{COOKIE}=ytc_2"}, "ytc_1"),
        ({"authorization": "Basic eDp5", "cookie": f"{COOKIE}=ytc_2"}, "ytc_2"),
    ],
)
async def test_the_token_or_else_the_session_is_passed_on(
    headers: dict[str, str], token: str
) -> None:
    expected = (("authorization", f"Bearer {token}"),) if token else ()

    assert await passed_on(scope(**headers)) == (*expected, (CLIENT_KEY, "192.0.2.7"))


@pytest.mark.parametrize("token", ["a b", "a\x00", "é", "x" * 5000, '"'])
async def test_what_metadata_cannot_carry_is_refused(token: str) -> None:
    assert await passed_on(scope(authorization=f"Bearer {token}")) == 401
