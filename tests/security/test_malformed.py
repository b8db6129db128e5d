"""Malformed requests end in typed errors: no UNKNOWN, no INTERNAL, no 5xx, no traceback.

`RPC_MUTATIONS=10000 HTTP_MUTATIONS=5000 scripts/test tests/security/test_malformed.py` runs more.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from itertools import cycle, islice
from random import Random
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import grpc
import httpx2
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from mesh.addresses import split
from mesh.frames import truthful
from mesh.reasons import Reason
from mesh.server import Service, running_server
from mesh.status import reason_of
from tests.conftest import RealMesh, running_mesh
from tests.security.mutations import ID, TEXTS, message_of, mutated
from ytcaption.v1 import (
    admin_service_pb2,
    auth_service_pb2,
    collection_service_pb2,
    downloader_service_pb2,
    normalizer_service_pb2,
    pipeline_service_pb2,
    quota_service_pb2,
    transcriber_service_pb2,
)
from ytcaption.v1 import downloader_service_pb2_grpc as downloader_rpc

SEED = 17
RPC_MUTATIONS = int(os.environ.get("RPC_MUTATIONS", "400"))
HTTP_MUTATIONS = int(os.environ.get("HTTP_MUTATIONS", "300"))
AT_ONCE = 8
ANSWER_SECONDS = 60
MAX_QUERY = 60_000
"""The client refuses to send more."""
WATCH_SECONDS = 0.2
"""A stream that answers nothing for this long was accepted, and is cancelled."""

ORCHESTRATOR, DOWNLOADER, NORMALIZER, TRANSCRIBER = range(4)
SERVED: dict[int, tuple[Any, ...]] = {
    ORCHESTRATOR: (
        pipeline_service_pb2,
        collection_service_pb2,
        admin_service_pb2,
        auth_service_pb2,
        quota_service_pb2,
        health_pb2,
        reflection_pb2,
    ),
    DOWNLOADER: (downloader_service_pb2,),
    NORMALIZER: (normalizer_service_pb2,),
    TRANSCRIBER: (transcriber_service_pb2,),
}
METHODS = [
    (place, method)
    for place, modules in SERVED.items()
    for module in modules
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
ERASES = "FactoryReset"
UNTYPED = (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL)


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesh]:
    """A mesh of its own: what is done to it must not meet other tests."""
    with running_mesh(tmp_path_factory.mktemp("attacked")) as running:
        yield running


@pytest.fixture
async def channels(attacked: RealMesh) -> AsyncIterator[list[grpc.aio.Channel]]:
    host, port = split(attacked.server)
    opened = [grpc.aio.insecure_channel(f"{host}:{port + place}") for place in range(4)]
    yield opened
    for channel in opened:
        await channel.close()


def tracebacks(mesh: RealMesh) -> list[str]:
    """Log lines of all services that hold one."""
    return [
        f"{path.name}: {line[:2000]}"
        for path in (mesh.data_dir / "logs").glob("*.log*")
        for line in path.read_text(errors="replace").splitlines()
        if "Traceback" in line or '"exception"' in line or "unhandled" in line
    ]


async def call(
    channel: grpc.aio.Channel, method: Any, frames: list[bytes], *, must_end: bool = False
) -> Any:
    """Sends the frames as they are; returns None, or the error of the call.

    A watch that is accepted does not end by itself, and is left after a while.
    """
    name = f"/{method.containing_service.full_name}/{method.name}"
    kind = "_".join(
        "stream" if streaming else "unary"
        for streaming in (method.client_streaming, method.server_streaming)
    )
    invoke: Any = getattr(channel, kind)(name)
    streamed = method.client_streaming
    made = truthful(invoke(timeout=ANSWER_SECONDS)) if streamed else invoke(frames[0])
    # Beside reading: a server that answers each frame waits for its answers to be read.
    writing = asyncio.ensure_future(_write(made, frames)) if streamed else None
    watched = method.server_streaming and not streamed and not must_end
    try:
        async with asyncio.timeout(WATCH_SECONDS if watched else ANSWER_SECONDS):
            async for _ in made if method.server_streaming else _answers(made):
                pass
    except TimeoutError:
        assert watched, f"{name} has not ended"
    except grpc.aio.AioRpcError as error:
        return error
    finally:
        made.cancel()
        if writing:
            await writing
    return None


async def _answers(made: Any) -> AsyncIterator[Any]:
    """The one answer of a call that has no stream of them; it may take its time."""
    yield await made


async def _write(made: Any, frames: list[bytes]) -> None:
    # It may be refused before the last frame.
    with suppress(asyncio.InvalidStateError, asyncio.CancelledError, grpc.aio.AioRpcError):
        for frame in frames:
            await made.write(frame)
        await made.done_writing()


def frames_of(random: Random, method: Any) -> list[bytes]:
    """One to three requests, most of them mutated on the wire."""
    count = random.randint(1, 3) if method.client_streaming else 1
    frames = [message_of(random, method.input_type).SerializeToString() for _ in range(count)]
    return [mutated(random, frame) if random.random() < 0.7 else frame for frame in frames]


async def test_mutated_requests_to_every_rpc_end_in_typed_errors(
    attacked: RealMesh, channels: list[grpc.aio.Channel]
) -> None:
    random = Random(SEED)  # noqa: S311 # the same requests each time
    wrong: list[str] = []
    codes: Counter[str] = Counter()
    todo = list(islice(cycle(METHODS), max(RPC_MUTATIONS, len(METHODS))))
    requests = iter([(place, method, frames_of(random, method)) for place, method in todo])

    async def attack() -> None:
        for place, method, frames in requests:
            error = await call(channels[place], method, frames)
            code = error.code() if error else grpc.StatusCode.OK
            codes[code.name] += 1
            typed = not error or (code not in UNTYPED and reason_of(error) in set(Reason))
            ours = method.containing_service.full_name.startswith("ytcaption.")
            # Health answers NOT_FOUND by itself, and knows no reasons.
            if not typed and (ours or code is not grpc.StatusCode.NOT_FOUND):
                hexed = [frame.hex()[:400] for frame in frames]
                wrong.append(f"{method.full_name} {code} {error.details()} {hexed}")

    await asyncio.gather(*(attack() for _ in range(AT_ONCE)))

    assert wrong == []
    assert tracebacks(attacked) == []
    assert codes["INVALID_ARGUMENT"] > len(todo) / 4, codes
    assert sum(codes.values()) == len(todo)


GARBAGE = [b"\xff" * 40, b"\x08", b"\x0a\xff\xff\xff\xff\x0f", b"\x0b" * 300]


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_bytes_that_are_no_message_are_refused_by_every_rpc(
    channels: list[grpc.aio.Channel], garbage: bytes
) -> None:
    for place, method in METHODS:
        error = await call(channels[place], method, [garbage], must_end=True)
        assert error is not None, method.full_name
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, (method.full_name, error)
        assert reason_of(error) in ("REQUEST_INVALID", "START_MISSING"), method.full_name


@pytest.mark.parametrize("size", [1024**2 + 1, 5 * 1024**2])
async def test_an_oversized_message_is_refused_with_a_reason(
    channels: list[grpc.aio.Channel], size: int
) -> None:
    for place, method in METHODS:
        frames = [b"\xa2\x06" + b"\x01x" * (size // 2)]
        error = await call(channels[place], method, frames, must_end=True)
        assert error is not None, method.full_name
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, (method.full_name, error)
        assert reason_of(error) == "FRAME_TOO_LARGE"


@pytest.mark.parametrize("kind", ["unary_unary", "unary_stream", "stream_unary", "stream_stream"])
@pytest.mark.parametrize("name", ["/ytcaption.v1.PipelineService/Nothing", "/x.Y/" + "z" * 4000])
async def test_an_unknown_method_is_refused_with_a_reason(
    channels: list[grpc.aio.Channel], name: str, kind: str
) -> None:
    async def frames() -> AsyncIterator[bytes]:
        yield b"x"

    invoke: Any = getattr(channels[0], kind)(name)
    streamed = kind.startswith("stream")
    made = invoke(frames() if streamed else b"x", timeout=ANSWER_SECONDS)
    made = truthful(made) if streamed else made
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (made if kind.endswith("unary") else anext(aiter(made)))

    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert reason_of(caught.value) == "NOT_IMPLEMENTED"
    assert len(caught.value.details() or "") < 200


class Endless(downloader_rpc.DownloaderServiceServicer):
    """Calls of it end when the server stops, not before."""

    def __init__(self) -> None:
        self.called = asyncio.Semaphore(0)

    async def Download(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        self.called.release()
        await asyncio.Event().wait()
        yield

    async def Purge(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.called.release()
        await asyncio.Event().wait()


async def test_calls_that_outlive_a_shutdown_end_with_a_reason() -> None:
    servicer = Endless()  # type: ignore[abstract] # the rest is not called
    service = Service.of(
        downloader_service_pb2.DESCRIPTOR.services_by_name["DownloaderService"],
        downloader_rpc.add_DownloaderServiceServicer_to_server,
        servicer,
    )
    async with running_server([service], grace_seconds=0) as server:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{server.port}")
        stub = downloader_rpc.DownloaderServiceStub(channel)
        stream = stub.Download(downloader_service_pb2.DownloadRequest())
        unary = stub.Purge(downloader_service_pb2.DownloaderServicePurgeRequest())
        pending = [
            asyncio.ensure_future(anext(aiter(stream))),
            asyncio.ensure_future(_ended(unary)),
        ]
        for _ in pending:
            await servicer.called.acquire()

    ends: list[Any] = await asyncio.gather(*pending, return_exceptions=True)
    await channel.close()

    assert [end.code() for end in ends] == [grpc.StatusCode.UNAVAILABLE] * 2
    assert [reason_of(end) for end in ends] == [Reason.STAGE_UNAVAILABLE] * 2


async def _ended(call: Any) -> Any:
    return await call


HEADERS: dict[str, tuple[str, ...]] = {
    "content-type": ("application/json", "text/plain", "multipart/form-data; boundary=x", "x/", ""),
    "range": ("bytes=0-", "bytes=9-1", "bytes=-", "bytes=99999999999999999999-", "lines=1-2"),
    "last-event-id": ("1", "-1", "9" * 30, "x"),
    "origin": ("null", "http://evil.test", "http://[", "http://127.0.0.1"),
    "x-correlation-id": ("x", "x" * 5000, "\x7f"),
    "accept-encoding": ("gzip", "x"),
    "if-none-match": ("*", "x"),
}
CREATES = ("/pipeline", "/uploads", "/collections")


def parts_of(operation: Any, place: str) -> list[str]:
    return [one["name"] for one in operation.get("parameters", ()) if one["in"] == place]


def json_of(random: Random, names: list[str]) -> bytes:
    """An object with these fields and wrong values; often no JSON at all."""
    values: tuple[Any, ...] = (*TEXTS, None, True, -1, 2**70, 1e308, [], ["x"] * 200, {}, {"x": {}})
    chosen = {name: random.choice(values) for name in names if random.random() < 0.3}
    text = json.dumps(chosen).encode(errors="surrogatepass")
    return mutated(random, text) if random.random() < 0.4 else text


def http_request(random: Random, schema: Any, path: str, method: str) -> httpx2.Request:
    operation = schema["paths"][path][method]
    for name in parts_of(operation, "path"):
        path = path.replace(f"{{{name}}}", quote(random.choice((ID, *TEXTS))[:200], safe=""))
    query = [
        (name, random.choice(TEXTS)[:3000])
        for name in [*parts_of(operation, "query"), "unknown"]
        if random.random() < 0.3
    ]
    fields = [
        name
        for model in schema["components"]["schemas"].values()
        for name in model.get("properties", ())
    ]
    headers = {
        name: random.choice(values) for name, values in HEADERS.items() if random.random() < 0.2
    }
    if method in ("post", "delete"):
        headers.setdefault("content-type", "application/json")
    body = json_of(random, fields) if random.random() < 0.8 else random.randbytes(300)
    return httpx2.Request(
        method.upper(),
        f"http://127.0.0.1{path}?{urlencode(query)[:MAX_QUERY]}",
        headers=headers,
        content=body if method == "post" else None,
    )


async def exchange(mesh: RealMesh, data: bytes) -> bytes:
    """Sends bytes over a connection of its own; returns the head of the answer, if there is one."""
    url = urlsplit(mesh.http)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        writer.write(data)
        # A request that is not complete gets no answer: the client ends it here.
        writer.write_eof()
        async with asyncio.timeout(ANSWER_SECONDS):
            return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_mutated_requests_to_every_http_route_end_in_problems(attacked: RealMesh) -> None:
    random = Random(SEED)  # noqa: S311 # the same requests each time
    wrong: list[str] = []
    statuses: Counter[int] = Counter()
    async with httpx2.AsyncClient(base_url=attacked.http, timeout=ANSWER_SECONDS) as client:
        schema = (await client.get("/openapi.json")).json()
        routes = [(path, method) for path, methods in schema["paths"].items() for method in methods]
        todo = islice(cycle(routes), max(HTTP_MUTATIONS, len(routes)))
        requests = iter([http_request(random, schema, *route) for route in todo])

        async def attack() -> None:
            for request in requests:
                request.url = client.base_url.join(request.url.raw_path.decode())
                request.headers["host"] = client.base_url.netloc.decode()
                answer = await client.send(request, stream=True)
                statuses[answer.status_code] += 1
                if answer.status_code >= 400:
                    reason = (json.loads(await answer.aread() or b"{}")).get("reason")
                    head = request.method == "HEAD"
                    if answer.status_code >= 500 or not (head or reason in set(Reason)):
                        wrong.append(
                            f"{answer.status_code} {request.method} {request.url} {reason}"
                        )
                await answer.aclose()

        await asyncio.gather(*(attack() for _ in range(AT_ONCE)))

    assert wrong == []
    assert tracebacks(attacked) == []
    assert sum(statuses[status] for status in (400, 404, 422)) > sum(statuses.values()) / 4


async def test_mutated_bytes_of_http_requests_end_in_problems(attacked: RealMesh) -> None:
    random = Random(SEED)  # noqa: S311 # the same requests each time
    host = urlsplit(attacked.http).netloc
    body = b'{"youtube_url": "http://127.0.0.1:9/x.mp3"}'
    plain = [
        f"GET /jobs?limit=3 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode(),
        f"POST /pipeline HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body,
        f"POST /uploads?file_name=x HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5\r\nhello\r\n0\r\n\r\n".encode(),
    ]
    todo = iter([mutated(random, random.choice(plain)) for _ in range(HTTP_MUTATIONS)])
    wrong: list[str] = []
    heads: Counter[bytes] = Counter()

    async def attack() -> None:
        for data in todo:
            head = await exchange(attacked, data)
            status = head[9:12]
            heads[status] += 1
            problem = b"application/problem+json" in head.lower()
            if status >= b"500" or (status >= b"400" and not problem):
                wrong.append(f"{data!r} -> {head!r}")

    await asyncio.gather(*(attack() for _ in range(AT_ONCE)))

    assert wrong == []
    assert tracebacks(attacked) == []
    assert heads[b"400"] > 0
