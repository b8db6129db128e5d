"""The listening socket of the gateway."""

import asyncio
import socket

from gateway.__main__ import _bound_socket


async def test_responses_are_sent_without_waiting_for_acknowledgements() -> None:
    accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def on_connection(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        accepted.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with _bound_socket("127.0.0.1:0") as listener:
        async with await asyncio.start_server(on_connection, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            assert await accepted
            writer.close()
