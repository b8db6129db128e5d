"""`ytcaption up`: real nats-server, dummy services."""

import asyncio
import signal
import socket
from pathlib import Path

import nats
from nats.aio.client import Client

from cli.channel import answers_http
from mesh.addresses import free_ports, free_row
from tests.support.command import (
    LIMIT_SECONDS,
    MARK,
    alive,
    finish,
    marked,
    names_in,
    next_line,
    run,
    start,
)
from tests.support.polling import until
from tests.support.processes import command_line

URL = "https://example.net/v"


def up_arguments(tmp_path: Path, first: int) -> list[str]:
    own = ["--port", str(first), "--metrics-port", "0", "--http-port", "0", "--nats-port", "0"]
    return ["up", *own, "--data-dir", str(tmp_path / "data")]


async def test_up_serves_until_it_is_stopped(tmp_path: Path, mesh: dict[str, str]) -> None:
    first = free_row(4)

    process = await start(*up_arguments(tmp_path, first), **mesh)
    line = await next_line(process)
    served = await run("transcribe", URL, "--server", f"127.0.0.1:{first}")
    process.send_signal(signal.SIGTERM)
    ended = await finish(process)

    assert f"orchestrator 127.0.0.1:{first}" in line
    assert served.code == 0, served.err
    assert ended.code == 0
    assert f"logs: {tmp_path / 'data' / 'logs'}" in ended.err
    assert "downloader.log" in names_in(tmp_path / "data" / "logs")
    assert alive(mesh) == []


async def test_up_serves_the_web_page_and_prints_its_address(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    first, http = free_row(4), free_ports(1)[0]
    arguments = [*up_arguments(tmp_path, first), "--http-port", str(http)]

    process = await start(*arguments, **mesh)
    lines = [await next_line(process) for _ in range(4)]
    await until(lambda: answers_http(f"127.0.0.1:{http}"))
    process.send_signal(signal.SIGTERM)
    ended = await finish(process)

    assert f"web page: http://127.0.0.1:{http}\n" in lines
    assert ended.code == 0
    assert "gateway.log" in names_in(tmp_path / "data" / "logs")


async def test_a_taken_http_port_is_one_line_that_names_its_option(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        arguments = [*up_arguments(tmp_path, free_row(4)), "--http-port", port]
        ended = await run(*arguments, **mesh)

    assert ended.code == 4
    assert f"cannot listen on 127.0.0.1:{port} (gateway)" in ended.err
    assert "--http-port" in ended.err
    assert ended.err.count("\n") == 1


async def test_a_second_up_on_the_same_data_is_refused(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    process = await start(*up_arguments(tmp_path, free_row(4)), **mesh)
    await next_line(process)

    second = await run(*up_arguments(tmp_path, free_row(4)), **mesh)
    process.send_signal(signal.SIGINT)
    await finish(process)

    assert second.code == 4
    assert f"another `ytcaption up` (process {process.pid}) uses" in second.err
    assert second.err.count("\n") == 1


async def test_a_taken_port_is_one_line_before_anything_starts(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    first = free_row(4)
    with socket.create_server(("127.0.0.1", first + 2)):
        ended = await run(*up_arguments(tmp_path, first), **mesh)

    assert ended.code == 4
    assert f"cannot listen on 127.0.0.1:{first + 2} (normalizer)" in ended.err
    assert "--port" in ended.err
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "data" / "logs").exists()


async def _logged_in(process: asyncio.subprocess.Process) -> Client:
    """Connects as the lines say that `up` prints; as the orchestrator, which may do everything."""
    url = "nats://" + (await next_line(process)).rpartition("nats ")[2].strip()
    keys = (await next_line(process)).partition("bridge.nk in ")[2].strip()
    return await nats.connect(url, nkeys_seed=f"{keys}/orchestrator.nk")


async def test_stored_data_survives_a_kill(tmp_path: Path, mesh: dict[str, str]) -> None:
    first = await start(*up_arguments(tmp_path, free_row(4)), **mesh)
    client = await _logged_in(first)
    await client.jetstream(timeout=60).add_stream(name="T", subjects=["t"])
    await client.jetstream(timeout=60).publish("t", b"kept")
    await client.close()
    first.send_signal(signal.SIGKILL)
    await first.communicate()
    await until(lambda: alive(mesh) == [])

    second = await start(*up_arguments(tmp_path, free_row(4)), **mesh)
    client = await _logged_in(second)
    kept = await client.jetstream(timeout=60).get_msg("T", 1)
    await client.close()
    second.send_signal(signal.SIGINT)
    await finish(second)

    assert kept.data == b"kept"


async def test_up_restarts_a_killed_service(tmp_path: Path, mesh: dict[str, str]) -> None:
    process = await start(*up_arguments(tmp_path, free_row(4)), **mesh)
    await next_line(process)
    victim = next(
        p
        for p in marked(mesh[MARK])
        if command_line(p)[-2:] == ["-m", "normalizer"] and "--grace" not in command_line(p)
    )
    victim.kill()
    assert process.stderr is not None
    printed = b""
    async with asyncio.timeout(LIMIT_SECONDS):
        while b"normalizer is back" not in printed:
            printed += await process.stderr.readline()
    process.send_signal(signal.SIGINT)
    await finish(process)

    assert b"normalizer ended with code 137; starting it again" in printed


async def test_the_broker_listens_at_the_chosen_port_after_every_start(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    port = str(free_ports(1)[0])
    for _ in range(2):
        arguments = [*up_arguments(tmp_path, free_row(4)), "--nats-port", port]
        process = await start(*arguments, **mesh)
        ready, events = await next_line(process), await next_line(process)
        keys = tmp_path / "data" / "nats" / "credentials"
        client = await nats.connect(
            events.split()[1].rstrip(","), nkeys_seed=str(keys / "bridge.nk")
        )
        await client.close()
        process.send_signal(signal.SIGTERM)
        await finish(process)

        assert f"nats 127.0.0.1:{port}" in ready
        assert events.startswith(f"events: nats://127.0.0.1:{port}, with a key: ")
        assert str(keys) in events


async def test_a_taken_nats_port_is_one_line_that_names_its_option(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = await run(*up_arguments(tmp_path, free_row(4)), "--nats-port", port, **mesh)

    assert ended.code == 4
    assert f"cannot listen on 127.0.0.1:{port} (nats)" in ended.err
    assert "--nats-port" in ended.err
    assert ended.err.count("\n") == 1


async def test_up_names_each_variable_of_the_earlier_system_that_means_nothing_to_it_once(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    old = {"REDIS_URL": "redis://user:secret@r", "PORT": "9000", "VIDEO_DOWNLOADER_URL": "http://d"}

    process = await start(*up_arguments(tmp_path, free_row(4)), **mesh, **old, WORKERS="2")
    await next_line(process)
    process.send_signal(signal.SIGTERM)
    ended = await finish(process)

    told = [line for line in ended.err.splitlines() if "has no meaning here" in line]
    assert sorted(line.split()[0] for line in told) == sorted(old)
    assert "secret" not in ended.err
