"""Keepalive: clients that ping as often as gRPC allows are not cut off."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from mesh import server
from mesh.channel import COMMON

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, GOAWAY = 4, 6, 7
ACK = 1
Options = tuple[tuple[str, int], ...]
FASTER = 50
"""How much faster than in production everything is here."""
CLIENT_PING_SECONDS = 10 / FASTER
MORE_THAN_STRIKES = 6
"""Pings: the server cuts a client off at its third that came too early."""


def faster(options: Options) -> Options:
    return tuple(
        (name, value // FASTER if name.endswith("_interval_without_data_ms") else value)
        for name, value in options
    )


def misspelt(options: Options) -> Options:
    return tuple((name.replace("min_ping", "min_recv_ping"), value) for name, value in options)


def without_permission(options: Options) -> Options:
    return tuple(one for one in options if one[0] != "grpc.keepalive_permit_without_calls")


class Http2Client:
    """Speaks just enough HTTP/2 to ping a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, kind: int, payload: bytes = b"", flags: int = 0) -> None:
        self._writer.write(len(payload).to_bytes(3, "big") + bytes([kind, flags]) + bytes(4))
        self._writer.write(payload)

    async def until(self, *kinds: int) -> tuple[int, bytes]:
        """Reads up to an answer of one of these kinds."""
        while True:
            head = await self._reader.readexactly(9)
            payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
            kind, flags = head[3], head[4]
            if kind == PING and not flags & ACK:  # the server's own keepalive
                self.send(PING, payload, ACK)
            elif kind in kinds:
                return kind, payload


@asynccontextmanager
async def http2_client(port: int) -> AsyncIterator[Http2Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        client = Http2Client(reader, writer)
        writer.write(PREFACE)
        client.send(SETTINGS)
        yield client
    finally:
        writer.close()


async def answer_to_pings(port: int) -> tuple[int, bytes]:
    """The last answer to a client without calls that pings at its interval."""
    async with http2_client(port) as client:
        for _ in range(MORE_THAN_STRIKES):
            client.send(PING, bytes(8))
            kind, payload = await client.until(PING, GOAWAY)
            if kind == GOAWAY:
                break
            await asyncio.sleep(CLIENT_PING_SECONDS)
    return kind, payload


async def test_a_client_that_pings_every_ten_seconds_is_not_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "OPTIONS", faster(server.OPTIONS))
    async with server.running_server([], grace_seconds=0) as running:
        kind, _ = await answer_to_pings(running.port)

    assert kind == PING


@pytest.mark.parametrize("spoilt", [misspelt, without_permission])
async def test_the_core_ignores_an_option_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch, spoilt: Callable[[Options], Options]
) -> None:
    """So the test above fails if one is misspelt or missing."""
    monkeypatch.setattr(server, "OPTIONS", spoilt(faster(server.OPTIONS)))
    async with server.running_server([], grace_seconds=0) as running:
        kind, payload = await answer_to_pings(running.port)

    assert kind == GOAWAY
    assert payload.endswith(b"too_many_pings")


def test_the_core_knows_the_name_of_every_option() -> None:
    (path,) = (Path(grpc.__file__).parent / "_cython").glob("cygrpc*.so")
    core = path.read_bytes()

    unknown = [name for name, _ in (*server.OPTIONS, *COMMON) if name.encode() not in core]
    assert unknown == []
