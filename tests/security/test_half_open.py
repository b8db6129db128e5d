"""Unfinished requests, idle uploads and floods hold neither the gateway nor the disk."""

# ruff: noqa: F811 # parameters that are fixtures, imported from another room

import asyncio
import logging
import os
import resource
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import httpx2
import pytest
import structlog

from cli.local.supervisor import MAX_LOG_BYTES, ManagedProcess, ProcessSpec
from gateway.http.protocol import MAX_HEAD_BYTES
from mesh.addresses import free_ports
from mesh.frames import truthful
from mesh.logs import BURST_LINES, LINES_PER_SECOND, TRACEBACK_LINES, RateLimit
from mesh.server import Service, running_server
from mesh.status import reason_of
from tests.orchestrator.conftest import (  # noqa: F401 # fixtures
    Start,
    broker,
    grpc_core,
    patient,
    script,
    start,
)
from tests.support.controlled_collections import ControlledCollection, serving_collections
from tests.support.http import running_gateway
from tests.support.polling import until
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import pipeline_service_pb2_grpc as rpc

SOON = 0.3
"""A time limit that must pass; everything else has a minute."""
NEVER = 3600.0


@asynccontextmanager
async def gateway(**settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a gateway, whose orchestrator has one collection."""
    times = {"head_seconds": NEVER, "body_seconds": NEVER}
    async with (
        serving_collections(ControlledCollection()) as address,
        running_gateway(**({"orchestrator": address} | times | settings)) as client,
    ):
        yield client


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(http: httpx2.AsyncClient, sent: bytes = b"GET /jobs HTTP/1.1\r\n") -> Connection:
    """A connection on which the beginning of a request was sent."""
    url = urlsplit(str(http.base_url))
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def answer(reader: asyncio.StreamReader) -> bytes:
    """The answer up to the end of the connection."""
    try:
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionError:
        return b""


def upload(size: int) -> bytes:
    return f"POST /uploads HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {size}\r\n\r\n".encode()


@pytest.mark.parametrize("beginning", [b"", b"G", b"GET /jobs HTTP/1.1\r\nHost: 127", b"\r\n\r\n"])
async def test_a_head_that_does_not_arrive_in_time_ends_the_connection(beginning: bytes) -> None:
    async with gateway(head_seconds=SOON) as http:
        reader, writer = await connect(http, beginning)
        found = await answer(reader)
        writer.close()

    assert found == b"" or found.startswith(b"HTTP/1.1 408 ")
    assert bool(found) is bool(beginning)


async def test_the_second_head_on_a_connection_has_a_time_limit_too() -> None:
    async with gateway(head_seconds=SOON) as http:
        reader, writer = await connect(http, b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET")
        found = await answer(reader)
        writer.close()

    assert found.startswith(b"HTTP/1.1 200 ")
    assert b"HTTP/1.1 408 " in found


async def test_a_head_is_not_endless() -> None:
    async with gateway() as http:
        reader, writer = await connect(http)
        line = b"X-Filler: " + b"x" * 1000 + b"\r\n"
        for _ in range(MAX_HEAD_BYTES // len(line) + 2):
            writer.write(line)
        found = await answer(reader)
        writer.close()

    assert found.startswith(b"HTTP/1.1 431 ")


class SlowUploads(rpc.PipelineServiceServicer):
    """Takes uploads only once it is let go."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.called = asyncio.Event()

    async def CreateJobFromUpload(  # noqa: N802
        self, request_iterator: AsyncIterator[Any], context: Any
    ) -> pb.CreateJobFromUploadResponse:
        self.called.set()
        await self.go_on.wait()
        size = sum([len(frame.chunk) async for frame in request_iterator])
        return pb.CreateJobFromUploadResponse(job=job_pb2.Job(job_id="x", attempt=size))


@asynccontextmanager
async def slow_uploads(**settings: Any) -> AsyncIterator[tuple[SlowUploads, httpx2.AsyncClient]]:
    """A gateway whose orchestrator takes no upload before it is let go."""
    servicer = SlowUploads()  # type: ignore[abstract] # the rest is not called
    service = Service.of(
        pb.DESCRIPTOR.services_by_name["PipelineService"],
        rpc.add_PipelineServiceServicer_to_server,
        servicer,
    )
    async with (
        running_server([service], grace_seconds=0) as server,
        gateway(orchestrator=f"127.0.0.1:{server.port}", **settings) as http,
    ):
        yield servicer, http


async def test_an_idle_body_ends_the_request() -> None:
    async with slow_uploads(body_seconds=SOON) as (_, http):
        reader, writer = await connect(http, upload(10_000) + b"x" * 10)
        found = await answer(reader)
        writer.close()

    assert found.startswith(b"HTTP/1.1 408 ")
    assert b'"reason":"DEADLINE"' in found


async def test_a_dripping_body_ends_the_request() -> None:
    async with slow_uploads(body_seconds=1) as (_, http):
        reader, writer = await connect(http, upload(10_000))
        reading = asyncio.ensure_future(answer(reader))
        while not reading.done():
            writer.write(b"x")
            await asyncio.wait({reading}, timeout=0.05)
        found = await reading
        writer.close()

    assert found.startswith(b"HTTP/1.1 408 ")


async def test_a_body_that_waits_for_us_may_take_its_time() -> None:
    async with slow_uploads(body_seconds=2) as (servicer, http):
        sending = asyncio.ensure_future(http.post("/uploads", content=b"x" * 20 * 1024**2))
        await servicer.called.wait()
        await asyncio.wait({sending}, timeout=5)  # more than two windows in which nothing moves
        assert not sending.done()
        servicer.go_on.set()
        accepted = await sending

    assert accepted.status_code == 202


async def test_half_open_connections_make_room_for_requests_but_not_at_the_cost_of_others() -> None:
    async with gateway(max_connections=40, max_connections_per_client=20) as http:
        async with http.stream("GET", "/collections/events") as stream:
            events = stream.aiter_bytes()
            assert await anext(events)
            held = [await connect(http) for _ in range(100)]

            answers = [await http.get("/live") for _ in range(5)]

            assert [each.status_code for each in answers] == [200] * 5
            reading = [asyncio.ensure_future(answer(reader)) for reader, _ in held]
            await until(lambda: sum(task.done() for task in reading) >= 80)
            assert not any(task.done() for task in reading[90:])
            assert await anext(events)  # a heartbeat, or the next page
        for _, writer in held:
            writer.close()
        await asyncio.gather(*reading)


async def test_a_client_whose_connections_all_work_gets_no_more() -> None:
    async with gateway(max_connections_per_client=3) as http, AsyncExitStack() as stack:
        for _ in range(3):
            stream = http.stream("GET", "/collections/events")
            await stack.enter_async_context(stream)
        reader, writer = await connect(http, b"")
        found = await answer(reader)
        writer.close()

    assert found.startswith(b"HTTP/1.1 503 ")
    assert b"application/problem+json" in found


async def test_one_client_cannot_take_all_event_streams() -> None:
    async with (
        gateway(max_streams_per_client=2, trusted_proxies="127.0.0.1") as http,
        AsyncExitStack() as stack,
    ):

        async def follow(client: str) -> int:
            stream = http.stream("GET", "/collections/events", headers={"X-Forwarded-For": client})
            return (await stack.enter_async_context(stream)).status_code

        mine = [await follow("198.51.100.1") for _ in range(4)]
        other = await follow("198.51.100.2")

    assert mine == [200, 200, 429, 429]
    assert other == 200


def half_open(port: int) -> socket.socket:
    """A connection on which a request began."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(b"GET /jobs HTTP/1.1\r\n")
    return connection


def _few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))


async def test_1100_unfinished_heads_do_not_make_the_gateway_deaf(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    environment = {
        **os.environ,
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        "GATEWAY_METRICS_LISTEN": "",
        "GATEWAY_ORCHESTRATOR": "127.0.0.1:1",
        "GATEWAY_HEAD_SECONDS": "3600",
    }
    log = tmp_path / "gateway.log"
    held: list[socket.socket] = []
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway"),
            env=environment,
            stdout=output,
            stderr=output,
            preexec_fn=_few_files,
        )
    try:
        await until(lambda: b"listening" in log.read_bytes())
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            await until_answers(http)
            for _ in range(1100):
                held.append(await asyncio.to_thread(half_open, port))
            found = [(await http.get("/live")).status_code for _ in range(20)]
    finally:
        for each in held:
            each.close()
        process.terminate()
        await process.wait()

    assert found == [200] * 20
    assert log.stat().st_size < 100_000
    assert b"Traceback" not in log.read_bytes()


async def until_answers(http: httpx2.AsyncClient) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await http.get("/live")
            except httpx2.TransportError:
                await asyncio.sleep(0.05)
            else:
                return


@pytest.mark.parametrize("drip", [False, True])
async def test_an_idle_upload_ends_and_leaves_nothing_on_disk(
    start: Start, tmp_path: Path, drip: bool
) -> None:
    async with start(upload_idle_seconds=1) as client:
        call = truthful(client.pipeline.CreateJobFromUpload())
        await call.write(pb.CreateJobFromUploadRequest(start=pb.UploadStart(file_name="x")))
        await call.write(pb.CreateJobFromUploadRequest(chunk=b"x" * 60_000))
        ended = asyncio.ensure_future(_ended(call))
        while not ended.done():
            if drip:
                try:
                    await call.write(pb.CreateJobFromUploadRequest(chunk=b"x"))
                except (asyncio.InvalidStateError, grpc.aio.AioRpcError):
                    break
            await asyncio.wait({ended}, timeout=0.05)
        error = await ended

        assert (error.code(), reason_of(error)) == (
            grpc.StatusCode.DEADLINE_EXCEEDED,
            "STALLED",
        )
        assert list((tmp_path / "work").glob("upload-*")) == []


async def test_an_upload_that_never_starts_ends(start: Start) -> None:
    async with start(upload_idle_seconds=SOON) as client:
        error = await _ended(client.pipeline.CreateJobFromUpload())

    assert (error.code(), reason_of(error)) == (grpc.StatusCode.DEADLINE_EXCEEDED, "STALLED")


async def _ended(call: Any) -> grpc.aio.AioRpcError:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error
    raise AssertionError("the upload was taken")


def test_a_flood_of_log_lines_of_one_kind_is_cut_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("mesh.logs.monotonic", lambda: now)
    limit = RateLimit()

    def line(event: str, *, traceback: bool = False) -> logging.LogRecord:
        failure: Any = (ValueError, ValueError(), None) if traceback else None
        return logging.LogRecord("x", 40, "", 0, {"event": event}, None, failure)

    written = sum(limit.filter(line("flood")) for _ in range(100_000))
    tracebacks = sum(limit.filter(line("bug", traceback=True)) for _ in range(1000))
    assert written == BURST_LINES
    assert tracebacks == BURST_LINES / TRACEBACK_LINES
    assert limit.filter(line("something else"))

    now = 1.0
    after = line("flood")
    assert limit.filter(after)
    message: Any = after.msg
    assert message["dropped_lines"] == 100_000 - BURST_LINES
    assert sum(limit.filter(line("flood")) for _ in range(1000)) == LINES_PER_SECOND - 1


def test_every_service_limits_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", list(root.handlers))
    level = root.level
    from mesh.logs import configure_logs

    configure_logs("tester", "INFO", "json")
    try:
        assert any(isinstance(one, RateLimit) for one in root.handlers[0].filters)
    finally:
        root.setLevel(level)
        structlog.reset_defaults()


CHATTY = """
import itertools, time
for number in itertools.count():
    print("x" * 999, number, flush=True)
    time.sleep(0.001)
"""


async def test_a_log_is_rotated_while_its_process_runs(tmp_path: Path) -> None:
    async def ready() -> bool:
        return True

    spec = ProcessSpec("chatty", [sys.executable, "-c", CHATTY], ready)
    process = ManagedProcess(spec, tmp_path, grace_seconds=1)
    process.log_path.write_bytes(b"old\n" * (MAX_LOG_BYTES // 4))
    await process.start()
    try:
        await until(lambda: process.log_path.stat().st_size > MAX_LOG_BYTES)
        process.rotate_log()
        small = process.log_path.stat().st_size
        await until(lambda: process.log_path.stat().st_size > small + 5000)

        assert small < MAX_LOG_BYTES / 2
        assert process.log_path.with_suffix(".log.1").stat().st_size > MAX_LOG_BYTES
        assert all(line.startswith("x" * 999) for line in process.log_tail()[1:])
    finally:
        await process.stop()
