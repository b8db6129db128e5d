"""A real HTTP server that accepts or refuses webhooks."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from standardwebhooks.webhooks import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 # signs in tests only
HANG = 0
"""An answer that never comes."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One scripted response."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    endless: bool = False


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came."""

    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def verified(self, secret: str = SECRET) -> dict[str, object]:
        """The content; raises unless the reference library finds the signature right."""
        content: dict[str, object] = Webhook(secret).verify(self.body, self.headers)
        return content


class Receiver:
    """Sends the scripted replies in order, and repeats the last one."""

    def __init__(self) -> None:
        self.replies: list[Reply] = [Reply()]
        self.received: list[Received] = []
        self.names: list[str | None] = []
        """The TLS server names of the requests."""
        self.under_way = 0
        self.most_at_once = 0
        self.written = 0
        """Bytes of endless responses that the client has read."""
        self.url = ""
        self._arrived = asyncio.Condition()
        self._let_go = asyncio.Event()

    def answer(self, *replies: int | Reply) -> None:
        self.replies = [r if isinstance(r, Reply) else Reply(r) for r in replies]

    def release(self) -> None:
        """Answers hanging requests now, with 200."""
        self._let_go.set()

    async def wait_for(self, count: int) -> list[Received]:
        """The requests, once there are `count` of them."""
        async with asyncio.timeout(60), self._arrived:
            await self._arrived.wait_for(lambda: len(self.received) >= count)
        return self.received

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await self._serve(reader, writer)
        writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in head[1:] if line)
        headers = {name.lower(): value for name, value in headers.items()}
        body = await reader.readexactly(int(headers["content-length"]))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        try:
            async with self._arrived:
                self.received.append(Received(head[0].split(" ")[1], headers, body))
                self._arrived.notify_all()
            if reply.status == HANG:
                await self._let_go.wait()
                reply = Reply()
            await self._write(writer, reply)
        finally:
            self.under_way -= 1

    async def _write(self, writer: asyncio.StreamWriter, reply: Reply) -> None:
        length = {} if reply.endless else {"Content-Length": str(len(reply.body))}
        lines = [f"{name}: {value}" for name, value in (length | reply.headers).items()]
        head = "\r\n".join([f"HTTP/1.1 {reply.status} -", *lines, "", ""]).encode()
        writer.write(head + reply.body)
        await writer.drain()
        while reply.endless:
            writer.write(b"x" * 4096)
            await writer.drain()
            self.written += 4096


@asynccontextmanager
async def receiving(certificate: str = "", host: str = "127.0.0.1") -> AsyncIterator[Receiver]:
    """A receiver on loopback; over TLS if it has a certificate."""
    receiver = Receiver()
    context = _tls(receiver, certificate) if certificate else None
    server = await asyncio.start_server(receiver.serve, host, 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    receiver.url = f"{'https' if certificate else 'http'}://{host}:{port}/hook"
    try:
        yield receiver
    finally:
        receiver.release()
        server.close()
        await server.wait_closed()


def _tls(receiver: Receiver, certificate: str) -> ssl.SSLContext:
    def note(_: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> None:
        receiver.names.append(name)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = note
    return context
