"""Channels to our own services: balanced, health-checked, retried, kept alive."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias, cast

import grpc
from structlog import get_logger

from mesh.addresses import is_numeric, resolve, split
from mesh.bearer import metadata_of
from mesh.grpc_tls import channel_to
from mesh.server import KEEPALIVE_MS
from mesh.tasks import stop
from mesh.tls import PLAIN, Tls, WatchedFiles

log = get_logger(__name__)

MAX_RESPONSE_BYTES = 16 * 1024 * 1024
RESOLVE_SECONDS = 5.0
DRAIN_SECONDS = 24 * 3600.0
Resolve: TypeAlias = Callable[[str], Awaitable[list[str]]]
"""Returns the IP addresses of a host name; raises OSError if it has none."""

COMMON: tuple[tuple[str, str | int], ...] = (
    ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    # Reconnect to a restarted service within a second, not after minutes of backoff.
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    # The environment's proxy is for the internet, not for our own services.
    ("grpc.enable_http_proxy", 0),
    # A stalled reader then costs 95 KB on the server, not 5 MB.
    ("grpc.http2.bdp_probe", 0),
)


@asynccontextmanager
async def open_channel(  # noqa: PLR0913 # what to call, and how
    addresses: str,
    service: str,
    *,
    tls: Tls = PLAIN,
    token: str = "",
    resolve: Resolve = resolve,
    every_seconds: float = RESOLVE_SECONDS,
) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to the replicas ("host:port,[::1]:port") of the service with that full name.

    Hosts may be names or IP addresses of both families. Names are resolved again periodically, so
    replicas that come or come back get calls. With TLS every replica's certificate has the name of
    the first host; certificates that were replaced are used from the next look-up on. Every call
    carries the token, if there is one.
    """
    replicas = _Replicas(addresses, service, resolve, tls, token)
    await replicas.look_up()
    following = asyncio.create_task(replicas.follow(every_seconds))
    try:
        yield cast("grpc.aio.Channel", replicas)
    finally:
        await stop(following)
        await replicas.close()


def open_direct_channel(address: str, tls: Tls = PLAIN) -> grpc.aio.Channel:
    """A channel to one replica, without health checks."""
    return channel_to(address.strip(), tls.read() if tls.ca else None, COMMON)


def _calls_of(kind: str) -> Any:
    """A method such as `unary_unary`, whose calls go to the replicas known at their time."""

    def make(self: "_Replicas", *method: Any, **serializers: Any) -> Callable[..., Any]:
        def call(*request: Any, **options: Any) -> Any:
            if self.metadata:
                options["metadata"] = (*self.metadata, *(options.get("metadata") or ()))
            multi_callable = getattr(self.channel, kind)(*method, **serializers)
            return multi_callable(*request, **options)

        return call

    return make


class _Replicas:
    """Stands in for a channel; each new set of addresses gets a channel of its own.

    The channel core resolves one name or a list of IP addresses, but no list of names, and resolves
    a name again only after it has lost a connection.
    """

    unary_unary = _calls_of("unary_unary")
    unary_stream = _calls_of("unary_stream")
    stream_unary = _calls_of("stream_unary")
    stream_stream = _calls_of("stream_stream")

    def __init__(
        self, addresses: str, service: str, resolve: Resolve, tls: Tls, token: str
    ) -> None:
        self.metadata = metadata_of(token)
        listed = [address.strip() for address in addresses.split(",") if address.strip()]
        self._listed = [split(address) for address in listed or [addresses]]
        self._names = {host for host, _ in self._listed if not is_numeric(host)}
        self._found = {host: [host] for host, _ in self._listed if host not in self._names}
        self._resolve = resolve
        self._files = WatchedFiles(tls) if tls.ca else None
        self._first = listed[0]
        """The target while no name is known: the core then says so in its own words."""
        self._options = (*_options(service), ("grpc.default_authority", self._first))
        self._target = ""
        self._draining: set[asyncio.Task[None]] = set()
        self.channel: grpc.aio.Channel

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """READY while at least one replica serves."""
        return self.channel.get_state(try_to_connect)

    async def follow(self, every_seconds: float) -> None:
        """Resolves the names, and looks for new certificates, again and again."""
        while self._names or self._files:
            await asyncio.sleep(every_seconds)
            await self.look_up()

    async def look_up(self) -> None:
        """Resolves the names; opens another channel if addresses or certificates have changed."""
        await asyncio.gather(*map(self._look_up, self._names))
        found = {
            # In one list with IPv6 addresses; the core connects to IPv4 in the same way.
            f"[{ip}]:{port}" if ":" in ip else f"[::ffff:{ip}]:{port}"
            for host, port in self._listed
            for ip in self._found.get(host, ())
        }
        target = f"ipv6:{','.join(sorted(found))}" if found else self._first
        renewed = self._files is not None and self._files.changed()
        if target == self._target and not renewed:
            return
        if self._target:
            log.info("replicas changed", addresses=sorted(found), certificates=renewed)
            draining = asyncio.create_task(_drain(self.channel))
            self._draining.add(draining)
            draining.add_done_callback(self._draining.discard)
        self._target = target
        self.channel = channel_to(target, self._files.pems if self._files else None, self._options)

    async def _look_up(self, name: str) -> None:
        """Resolves one name; a failure leaves the addresses it had."""
        with suppress(OSError, UnicodeError):  # a timeout is an OSError, too
            async with asyncio.timeout(RESOLVE_SECONDS):
                self._found[name] = await self._resolve(name) or self._found.get(name, [])

    async def close(self) -> None:
        """Ends every call."""
        await stop(*self._draining)
        await self.channel.close()


async def _drain(channel: grpc.aio.Channel) -> None:
    """Closes a channel after its last call; if cancelled, at once."""
    try:
        await channel.close(DRAIN_SECONDS)
    finally:
        await channel.close()


def _options(service: str) -> tuple[tuple[str, str | int], ...]:
    config = {
        # pick_first would call a replica that reports NOT_SERVING.
        "loadBalancingConfig": [{"round_robin": {}}],
        "healthCheckConfig": {"serviceName": service},
        "methodConfig": [
            {
                "name": [{"service": service}],
                "retryPolicy": {
                    "maxAttempts": 4,
                    "initialBackoff": "0.1s",
                    "maxBackoff": "2s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ],
    }
    return (
        ("grpc.service_config", json.dumps(config)),
        ("grpc.enable_retries", 1),
        # Channels that share a connection share its health watch. One that joins it in the moment
        # the connection is lost crashes the process (grpcio 1.85.1).
        ("grpc.use_local_subchannel_pool", 1),
        *COMMON,
    )
