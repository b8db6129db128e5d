"""Connections of the HTTP server: caps, time limits and refusals, below the application.

uvicorn waits for ever for the rest of a request, and accepts connections until the process has no
file descriptor left; then it answers no client. Here a connection without a request may be closed
for a newer one, so a client that holds many of them open keeps out neither others nor itself.
"""

import asyncio
import resource
import sys
from collections import Counter
from typing import ClassVar

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from gateway.http.limits import client_of
from gateway.http.problems import RefusedError, respond
from gateway.settings import Settings, comma_separated
from mesh.reasons import Reason

BACKLOG = 256
"""Connections the system holds for us; asyncio accepts as many in one step."""
OTHER_FILES = 128
"""File descriptors that are not connections of clients."""
MAX_HEAD_BYTES = 64 * 1024
MIN_BODY_BYTES_PER_SECOND = 100


def raise_file_limit() -> int:
    """Raises the soft limit of open files to the hard one; returns it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


class Connections:
    """The open connections, over all clients and of each."""

    def __init__(self, settings: Settings, max_files: int) -> None:
        fitting = max_files - BACKLOG - OTHER_FILES
        self._max = max(1, min(settings.max_connections, fitting))
        self._max_per_client = settings.max_connections_per_client
        proxies = comma_separated(settings.trusted_proxies)
        # The middleware has no application here: it only knows which addresses are proxies.
        self._proxies = ProxyHeadersMiddleware(None, proxies).trusted_hosts  # type: ignore[arg-type]
        self._clients: dict[BoundedProtocol, str] = {}
        self._counts: Counter[str] = Counter()
        self._waiting: dict[BoundedProtocol, None] = {}
        """Connections without a request, in the order in which they began to wait."""

    def admit(self, connection: "BoundedProtocol", address: str) -> bool:
        """Counts a new connection; False if it is one too many and no older one merely waits."""
        client = "" if address in self._proxies else client_of({"client": (address, 0)})
        if client and self._counts[client] >= self._max_per_client and not self._close_for(client):
            return False
        if len(self._clients) >= self._max and not self._close_for(""):
            return False
        self._clients[connection] = client
        self._counts[client] += 1
        self._waiting[connection] = None
        return True

    def _close_for(self, client: str) -> bool:
        """Closes the connection, of this client if one is named, that has waited longest."""
        for connection in self._waiting:
            if not client or self._clients[connection] == client:
                self.forget(connection)
                connection.give_up()
                return True
        return False

    def begin(self, connection: "BoundedProtocol") -> None:
        """A request has begun: the connection stays open for it."""
        self._waiting.pop(connection, None)

    def end(self, connection: "BoundedProtocol") -> None:
        """The request has ended."""
        if connection in self._clients:
            self._waiting[connection] = None

    def forget(self, connection: "BoundedProtocol") -> None:
        """The connection is closed."""
        self._waiting.pop(connection, None)
        client = self._clients.pop(connection, None)
        if client is not None:
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]


class BoundedProtocol(HttpToolsProtocol):
    """One connection: the head of a request, and its body, must arrive in time."""

    open_connections: ClassVar[Connections]
    head_seconds: ClassVar[float]
    body_seconds: ClassVar[float]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Admits the connection, or refuses it."""
        super().connection_made(transport)
        self._head_timer: asyncio.TimerHandle | None = None
        self._body_timer: asyncio.TimerHandle | None = None
        self._awaits_head = True
        self._head_bytes = self._window_bytes = 0
        self._was_paused = False
        if self.open_connections.admit(self, self.client[0] if self.client else ""):
            self._start_head_timer()
        else:
            self._refuse(503, "too many connections are open", Reason.STAGE_UNAVAILABLE)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self.open_connections.forget(self)
        self._stop_head_timer()
        self._stop_body_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Counts what arrives, and passes it to the parser."""
        self._window_bytes += len(data)
        if self._awaits_head:
            self._head_bytes += len(data)
            self._start_head_timer()
        super().data_received(data)
        if self._awaits_head and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, f"the head of the request is over {MAX_HEAD_BYTES} bytes")

    def on_message_begin(self) -> None:
        """The first byte of a head is here, perhaps right behind the request before."""
        self._head_bytes = self._head_bytes or 1
        self._start_head_timer()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is here: the body's time begins."""
        self._stop_head_timer()
        self._awaits_head = False
        self.open_connections.begin(self)
        self._open_window()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Notes that we, not the client, held up the body."""
        super().on_body(body)
        self._was_paused = self._was_paused or self.flow.read_paused

    def on_message_complete(self) -> None:
        """The whole request is here."""
        self._stop_body_timer()
        self._awaits_head, self._head_bytes = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The next request may follow on the same connection."""
        super().on_response_complete()
        if not self.pipeline:
            self.open_connections.end(self)

    def send_400_response(self, msg: str) -> None:
        """Refuses what is not HTTP, or could be read in two ways."""
        self._refuse(400, "the request is not valid HTTP/1.1")

    def give_up(self) -> None:
        """Closes a connection whose request did not come, or did not come in time."""
        if self._head_bytes:
            self._refuse(408, "the head of the request did not arrive in time", Reason.DEADLINE)
        else:
            self.transport.close()

    def _open_window(self) -> None:
        self._window_bytes, self._was_paused = 0, self.flow.read_paused
        self._body_timer = self.loop.call_later(self.body_seconds, self._close_window)

    def _close_window(self) -> None:
        slow = self._window_bytes < self.body_seconds * MIN_BODY_BYTES_PER_SECOND
        waits_for_us = self._was_paused or self.cycle.waiting_for_100_continue
        if slow and not waits_for_us:
            self._refuse(408, "the body of the request did not arrive in time", Reason.DEADLINE)
        else:
            self._open_window()

    def _refuse(self, status: int, why: str, reason: Reason = Reason.REQUEST_INVALID) -> None:
        """Responds with a problem, unless a response has begun, and closes the connection."""
        self._stop_head_timer()
        self._stop_body_timer()
        under_way = self.cycle is not None and not self.cycle.response_complete
        if not (under_way and self.cycle.response_started) and not self.transport.is_closing():
            response = respond(RefusedError(status, why, reason=reason))
            headers = [*response.raw_headers, (b"connection", b"close")]
            lines = [name + b": " + value + b"\r\n" for name, value in headers]
            self.transport.write(
                b"".join([STATUS_LINE[status], *lines, b"\r\n", bytes(response.body)])
            )
        self.transport.close()

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self.give_up)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_body_timer(self) -> None:
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None


def bounded_protocol(settings: Settings, max_files: int) -> type[BoundedProtocol]:
    """The protocol of one server: its connections are counted together."""

    class Bounded(BoundedProtocol):
        open_connections = Connections(settings, max_files)
        head_seconds = settings.head_seconds
        body_seconds = settings.body_seconds

    return Bounded
