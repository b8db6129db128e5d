"""A web site on loopback that behaves, and one that does not."""

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

MEDIA = random.Random(11).randbytes(600_000)  # noqa: S311 - noise, not a secret
PIECES = 4
DRIP_SECONDS = 0.05
ABORT = struct.pack("ii", 1, 0)
"""SO_LINGER with no time: closing resets the connection."""

PLAYLIST = (
    "#EXTM3U\n#EXT-X-TARGETDURATION:4\n"
    + "".join(f"#EXTINF:4,\n{number}.ts\n" for number in range(PIECES))
    + "#EXT-X-ENDLIST\n"
).encode()
MANIFEST = (
    '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" '
    'mediaPresentationDuration="PT16S"><Period><AdaptationSet mimeType="audio/mp4">'
    '<Representation id="a" codecs="mp4a.40.2" bandwidth="64000"><SegmentList duration="4">'
    + "".join(f'<SegmentURL media="{number}.ts"/>' for number in range(PIECES))
    + "</SegmentList></Representation></AdaptationSet></Period></MPD>"
).encode()
PAGE = b"<html><title>A talk</title><video><source src='/good.mp3'></video></html>"

Writer = asyncio.StreamWriter
Answer = Callable[[Writer], Awaitable[None]]


def _whole(body: bytes, kind: str) -> Answer:
    async def answer(writer: Writer) -> None:
        writer.write(_head(len(body), kind) + body)
        await writer.drain()

    return answer


async def _reset(writer: Writer) -> None:
    writer.write(_head(len(MEDIA)) + MEDIA[: len(MEDIA) // 2])
    await writer.drain()
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)


async def _truncate(writer: Writer) -> None:
    writer.write(_head(len(MEDIA)) + MEDIA[: len(MEDIA) // 2])
    await writer.drain()


async def _drip(writer: Writer) -> None:
    """A slow loris: always a byte more, never an end."""
    writer.write(_head(len(MEDIA)))
    for number in range(len(MEDIA)):
        writer.write(MEDIA[number : number + 1])
        await writer.drain()
        await asyncio.sleep(DRIP_SECONDS)


async def _drip_head(writer: Writer) -> None:
    """The same before the media, which holds up the look."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"X-More: x\r\n")
        await writer.drain()
        await asyncio.sleep(DRIP_SECONDS * 10)


async def _nothing(_: Writer) -> None:
    await asyncio.sleep(3600)


ANSWERS: dict[str, Answer] = {
    "/good.mp3": _whole(MEDIA, "audio/mpeg"),
    "/page": _whole(PAGE, "text/html"),
    "/talk.m3u8": _whole(PLAYLIST, "application/vnd.apple.mpegurl"),
    "/talk.mpd": _whole(MANIFEST, "application/dash+xml"),
    **{f"/{number}.ts": _whole(MEDIA, "video/mp2t") for number in range(PIECES)},
    "/reset.mp3": _reset,
    "/truncated.mp3": _truncate,
    "/loris.mp3": _drip,
    "/loris-head.mp3": _drip_head,
    "/silent.mp3": _nothing,
}


@asynccontextmanager
async def running_site() -> AsyncIterator[str]:
    """Its address, until the block ends."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.close()


async def _serve(reader: asyncio.StreamReader, writer: Writer) -> None:
    with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ", 2)[1].decode()
        gone = asyncio.ensure_future(reader.read())  # ends when the other side hangs up
        answering = asyncio.ensure_future(ANSWERS[path](writer))
        await asyncio.wait((gone, answering), return_when=asyncio.FIRST_COMPLETED)
        for task in (gone, answering):
            task.cancel()
        await asyncio.gather(gone, answering, return_exceptions=True)
    writer.close()


def _head(length: int, kind: str = "audio/mpeg") -> bytes:
    return (
        f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n"
        "Connection: close\r\n\r\n"
    ).encode()
