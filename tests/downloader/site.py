"""A web site on loopback that can misbehave in every way a test needs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AddressFamily
from time import monotonic

Answer = Callable[[BaseHTTPRequestHandler], None]

PATIENCE = 300
"""Seconds after which a handler that waits for a test gives up, so that no thread stays.

Longer than any test waits: what a silent site is waited for never ends by itself."""


class Site:
    """Answers by path; unknown paths are 404."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.answers: dict[str, Answer] = {}
        self.hits: list[str] = []
        self.closing = threading.Event()
        self.seen: list[Message] = []
        """The headers of every request."""
        self.times: list[float] = []
        """When each request came."""
        server = _Server6 if ":" in host else _Server
        self._server = server((host, port), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def url(self, path: str, answer: Answer | None = None, host: str = "127.0.0.1") -> str:
        """The address of a path, and from now on its answer."""
        if answer is not None:
            self.answers[path] = answer
        return f"http://{host}:{self.port}{path}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.hits.append(self.path)
                site.seen.append(self.headers)
                site.times.append(monotonic())
                site.answers.get(self.path, status(404))(self)

            do_CONNECT = do_HEAD = do_POST = do_GET  # noqa: N815 - names of http.server

            def log_message(self, *args: object) -> None:
                pass

        return Handler

    @contextmanager
    def running(self) -> Iterator["Site"]:
        """Serves until the block ends."""
        self._thread.start()
        try:
            yield self
        finally:
            self.closing.set()
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None:
        """Ignored: tests kill clients in the middle of a request."""


class _Server6(_Server):
    address_family = AddressFamily.AF_INET6


def _begin(
    request: BaseHTTPRequestHandler, code: int, headers: dict[str, str], length: int | None
) -> None:
    request.send_response(code)
    for name, value in headers.items():
        request.send_header(name, value)
    if length is not None:
        request.send_header("Content-Length", str(length))
    request.end_headers()


def content(data: bytes, kind: str = "audio/mpeg") -> Answer:
    """All of it, at once, with its length."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        _begin(request, 200, {"Content-Type": kind}, len(data))
        request.wfile.write(data)

    return answer


def without_length(data: bytes) -> Answer:
    """All of it, without a Content-Length."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        _begin(request, 200, {"Content-Type": "audio/mpeg"}, None)
        request.wfile.write(data)

    return answer


def held(data: bytes, first: int, go_on: threading.Event) -> Answer:
    """The first bytes; the rest only when the test says so."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        _begin(request, 200, {"Content-Type": "audio/mpeg"}, len(data))
        request.wfile.write(data[:first])
        request.wfile.flush()
        if go_on.wait(PATIENCE):
            request.wfile.write(data[first:])

    return answer


def mute(closing: threading.Event) -> Answer:
    """Accepts the request and never answers."""

    def answer(_: BaseHTTPRequestHandler) -> None:
        closing.wait(PATIENCE)

    return answer


def truncated(data: bytes, first: int) -> Answer:
    """Declares the full length, sends the first bytes, and closes the connection; ignores Range."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        _begin(request, 200, {"Content-Type": "audio/mpeg"}, len(data))
        request.wfile.write(data[:first])

    return answer


def shaky(data: bytes, first: int, more: int | None = None) -> Answer:
    """Closes in the middle, but resumes from there on request, for `more` bytes."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked = request.headers.get("Range")
        if asked is None:
            truncated(data, first)(request)
            return
        begin = int(asked.removeprefix("bytes=").partition("-")[0])
        extent = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        headers = {"Content-Type": "audio/mpeg", "Content-Range": extent}
        _begin(request, 206, headers, len(data) - begin)
        request.wfile.write(data[begin:][:more])

    return answer


def at_first(first: Answer, later: Answer) -> Answer:
    """Answers the first request one way and later ones another."""
    answers = iter([first])
    return lambda request: next(answers, later)(request)


def endless(sent: list[int], closing: threading.Event) -> Answer:
    """Sends as fast as the client reads; `sent` holds the size of every write."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        _begin(request, 200, {"Content-Type": "audio/mpeg"}, None)
        block = b"\0" * 65536
        with suppress(OSError):
            while not closing.is_set():
                request.wfile.write(block)
                sent.append(len(block))

    return answer


def status(code: int, **headers: str) -> Answer:
    """A status with optional headers and no body."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        _begin(request, code, {each.replace("_", "-"): headers[each] for each in headers}, 0)

    return answer


def only_with_cookie(cookie: str, data: bytes) -> Answer:
    """The data for requests with this cookie; 403 for the others."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        known = request.headers.get("Cookie") == cookie
        (content(data) if known else status(403))(request)

    return answer


def redirect(target: str) -> Answer:
    """Redirects the client."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        _begin(request, 302, {"Location": target}, 0)

    return answer
