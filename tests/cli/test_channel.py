"""The channel of the command to a server."""

import asyncio
from contextlib import suppress

import pytest

from cli.channel import is_serving
from mesh.addresses import split
from tests.support.fake_orchestrator import serving

HANDSHAKE_SECONDS = 0.5


async def test_a_server_behind_a_slow_connection_is_reached_at_the_first_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cli.channel.PROBE_SECONDS", 60)
    attempts: list[asyncio.Task[None]] = []

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
        writer.close()

    async with serving() as address:

        async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(HANDSHAKE_SECONDS)
            server_reader, server_writer = await asyncio.open_connection(*split(address))
            await asyncio.gather(relay(reader, server_writer), relay(server_reader, writer))

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            attempts.append(asyncio.create_task(slowly(reader, writer)))

        slow = await asyncio.start_server(accept, "127.0.0.1", 0)
        async with slow:
            host, port = slow.sockets[0].getsockname()
            assert await is_serving(f"{host}:{port}") is not None
        await asyncio.gather(*attempts)

    assert len(attempts) == 1
