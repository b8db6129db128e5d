"""Posts one HTTP request to an untrusted receiver, only to an address that was checked.

httpcore follows no redirects and asks no environment for proxies. What is ours is the network below
it: a name is resolved here, every address is checked, and the connection goes to one of those very
addresses, so that DNS rebinding is impossible. TLS and the Host header keep the name.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Self
from urllib.parse import urlsplit

import httpcore2 as httpcore
from structlog import get_logger

from mesh.errors import UnavailableError
from mesh.public_addresses import is_public
from mesh.reasons import Reason
from mesh.retry_after import retry_after_seconds

log = get_logger(__name__)

MAX_ANSWER = 64 * 1024
MAX_WORDS = 300
GONE = 410
TOO_MANY_REQUESTS = 429
PASSING = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
    OSError,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a request."""

    status: int = 0
    """0 if there was no answer."""
    error: str = ""
    """What went wrong, in words; empty if it was taken."""
    retry_after: float | None = None
    """Seconds the receiver wants to be left alone."""

    @property
    def taken(self) -> bool:
        """Whether the receiver accepted it."""
        return 200 <= self.status < 300

    @property
    def failure(self) -> UnavailableError:
        """An answer that is no acceptance, as the retry policy takes it."""
        reason = reason_of(self.status, given_up=False)
        return UnavailableError(self.error, reason=reason, retry_after_seconds=self.retry_after)


def reason_of(status: int, *, given_up: bool) -> Reason:
    """Why a webhook was not delivered, by the status of its last attempt."""
    if status == GONE:
        return Reason.WEBHOOK_REFUSED
    if status == TOO_MANY_REQUESTS and not given_up:
        return Reason.RATE_LIMITED
    return Reason.WEBHOOK_UNDELIVERED


@dataclass(frozen=True, slots=True)
class Destination:
    """The checked addresses of a receiver, in the order in which they are tried."""

    addresses: Sequence[str] = ()
    error: str = ""
    """Why there are none, in words."""

    @property
    def first(self) -> str:
        """The address that is tried first; "" if there is none."""
        return self.addresses[0] if self.addresses else ""


_CHOSEN: ContextVar[Sequence[str]] = ContextVar("chosen")
"""The addresses of the request that this task sends."""


class Poster:
    """Sends bodies; every request has a connection of its own."""

    def __init__(
        self, pool: httpcore.AsyncConnectionPool, network: "_Checked", seconds: float
    ) -> None:
        self._pool = pool
        self._network = network
        self._seconds = seconds

    @classmethod
    @asynccontextmanager
    async def opened(cls, *, private: bool, seconds: float, at_once: int) -> AsyncIterator[Self]:
        """Ready to send inside this block."""
        # A lookup cannot be cancelled: hung ones must not use up the shared threads.
        lookups = ThreadPoolExecutor(max_workers=2 * at_once, thread_name_prefix="lookup")
        network = _Checked(lookups, private=private, seconds=seconds)
        pool = httpcore.AsyncConnectionPool(
            ssl_context=httpcore.default_ssl_context(),
            max_connections=None,
            max_keepalive_connections=0,
            network_backend=network,
        )
        try:
            async with pool:
                yield cls(pool, network, seconds)
        finally:
            lookups.shutdown(wait=False, cancel_futures=True)

    async def resolve(self, url: str) -> Destination:
        """Looks up and checks the receiver's addresses; never raises for a failure of them."""
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            async with asyncio.timeout(self._seconds):
                return Destination(await self._network.addresses(parts.hostname or "", port))
        except TimeoutError:
            return Destination(error=f"no answer within {self._seconds:g} s")
        except PASSING as error:
            return Destination(error=_words(error))

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, destination: Destination
    ) -> Answer:
        """Never raises for a failure of the receiver or the network."""
        if destination.error:
            return Answer(error=destination.error)
        _CHOSEN.set(destination.addresses)
        answers: list[Answer] = []
        try:
            async with asyncio.timeout(self._seconds):
                await self._post(url, headers, body, answers)
        except TimeoutError:
            answers.append(Answer(error=f"no answer within {self._seconds:g} s"))
        except PASSING as error:
            answers.append(Answer(error=_words(error)))
        except Exception:  # counted like the others, so that it is not repeated for ever
            log.exception("cannot send a webhook")
            answers.append(Answer(error="a fault of ours; the log knows more"))
        # Whatever happens to the rest of an answer, its status counts.
        return answers[0]

    async def _post(
        self, url: str, headers: Mapping[str, str], body: bytes, answers: list[Answer]
    ) -> None:
        named = [("Host", urlsplit(url).netloc), *headers.items()]
        async with self._pool.stream("POST", url, headers=named, content=body) as response:
            answers.append(_answer(response))
            read = 0
            # Read out of courtesy and dropped: callers must not see it.
            async for chunk in response.aiter_stream():
                read += len(chunk)
                if read >= MAX_ANSWER:
                    return


def _answer(response: httpcore.Response) -> Answer:
    headers = {name.lower(): value for name, value in response.headers}
    status = response.status
    if 200 <= status < 300:
        return Answer(status)
    words = "a redirect, which is not followed" if 300 <= status < 400 else "not taken"
    asked = retry_after_seconds(headers.get(b"retry-after", b"").decode("ascii", "replace"))
    return Answer(status, f"answered {status}: {words}", asked)


def _words(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:MAX_WORDS]


class _Checked(httpcore.AsyncNetworkBackend):
    """Connects only to addresses that were checked."""

    def __init__(self, lookups: Executor, *, private: bool, seconds: float) -> None:
        self._lookups = lookups
        self._private = private
        self._seconds = seconds
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connects to the first of the resolved addresses that accepts."""
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        addresses = _CHOSEN.get()
        for address in addresses:
            share = self._seconds / len(addresses)  # one that is silent leaves time for the next
            try:
                return await self._network.connect_tcp(address, port, share)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = httpcore.ConnectError(f"cannot connect to {host}: {_words(error)}")
        raise failure

    async def addresses(self, host: str, port: int) -> list[str]:
        """The host's addresses; ConnectError if one of them is forbidden."""
        try:
            found = await asyncio.get_running_loop().run_in_executor(
                self._lookups, partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
            )
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host} cannot be resolved") from error
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        if not self._private and not all(map(is_public, addresses)):
            # Without the address: callers must not learn what an internal name resolves to.
            raise httpcore.ConnectError(f"{host} is not at a public address")
        return addresses
