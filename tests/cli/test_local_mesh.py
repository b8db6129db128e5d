"""`transcribe` with a mesh of its own and `up`: real nats-server, stand-ins for the services."""

import asyncio
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import time
from uuid import uuid4

import nats
import pytest

from cli.channel import answers_http
from cli.directories import RUN_PREFIX, run_directory
from mesh.addresses import free_ports
from tests.cli.command import MARK, commands, finish, marked, names_in, run, start
from tests.cli.dummy_service import install
from tests.cli.scripted import until

URL = "https://example.net/v"


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment in which the services are stand-ins and temporary files are ours."""
    mark = uuid4().hex
    (tmp_path / "tmp").mkdir()
    yield {
        "path_first": install(tmp_path / "services"),
        "TMPDIR": str(tmp_path / "tmp"),
        MARK: mark,
    }
    for process in marked(mark):
        process.kill()


def alive(mesh: dict[str, str]) -> list[str]:
    return commands(mesh[MARK])


def run_dirs(mesh: dict[str, str]) -> list[str]:
    return names_in(Path(mesh["TMPDIR"]))


async def test_a_mesh_is_started_for_the_job_and_leaves_nothing(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    out = tmp_path / "out"

    ended = await run("transcribe", URL, "-o", str(out), **mesh)

    assert ended.code == 0, ended.err
    assert len(ended.out.splitlines()) == 2
    assert len(names_in(out)) == 4
    assert alive(mesh) == []
    assert run_dirs(mesh) == []


async def test_services_are_told_everything_by_the_environment(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    await run("transcribe", URL, **mesh, DUMMY_NOTES=str(tmp_path))

    told = _settings(tmp_path / "orchestrator")
    assert told["ORCHESTRATOR_NATS_URL"].startswith("nats://127.0.0.1:")
    assert told["ORCHESTRATOR_METRICS_LISTEN"] == ""
    assert told["ORCHESTRATOR_WORK_DIR"].startswith(mesh["TMPDIR"])
    stages = {told[f"ORCHESTRATOR_{name}"] for name in ("DOWNLOADER", "NORMALIZER", "TRANSCRIBER")}
    assert len({*stages, told["ORCHESTRATOR_LISTEN"]}) == 4
    downloader = _settings(tmp_path / "downloader")
    assert downloader["DOWNLOADER_LISTEN"] == told["ORCHESTRATOR_DOWNLOADER"]
    assert downloader["DOWNLOADER_ALLOW_PRIVATE_ADDRESSES"] == "true"


def _settings(note: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in note.read_text().splitlines())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_an_interrupted_command_leaves_no_process_and_no_directory(
    mesh: dict[str, str], number: signal.Signals, code: int
) -> None:
    process = await start("transcribe", URL, **mesh, DUMMY_ENDLESS="1", DUMMY_DOWNLOADER="messy")
    assert process.stdout is not None
    await process.stdout.readline()
    assert any("nats-server" in line for line in alive(mesh))
    assert any("sleep 600" in line for line in alive(mesh))
    process.send_signal(number)

    ended = await finish(process)

    assert ended.code == code
    assert alive(mesh) == []
    assert run_dirs(mesh) == []


async def test_sigint_is_heard_even_where_the_shell_had_it_ignored(mesh: dict[str, str]) -> None:
    """As for a background job of a script."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = await start("transcribe", URL, **mesh, DUMMY_ENDLESS="1")
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert process.stdout is not None
    await process.stdout.readline()
    process.send_signal(signal.SIGINT)

    assert (await finish(process)).code == 130


async def test_interrupted_while_it_starts_it_leaves_nothing(mesh: dict[str, str]) -> None:
    process = await start("transcribe", URL, **mesh, DUMMY_TRANSCRIBER="slow")
    await until(lambda: any("-m transcriber" in line for line in alive(mesh)))
    process.send_signal(signal.SIGINT)

    ended = await finish(process)

    assert ended.code == 130
    assert alive(mesh) == []
    assert run_dirs(mesh) == []


async def test_a_killed_command_leaves_no_process_and_the_next_one_sweeps(
    mesh: dict[str, str],
) -> None:
    process = await start("transcribe", URL, **mesh, DUMMY_ENDLESS="1", DUMMY_DOWNLOADER="messy")
    assert process.stdout is not None
    await process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    await process.communicate()

    await until(lambda: alive(mesh) == [])
    (left,) = run_dirs(mesh)
    os.utime(Path(mesh["TMPDIR"]) / left, (time() - 3600, time() - 3600))
    ended = await run("transcribe", URL, **mesh)

    assert ended.code == 0, ended.err
    assert run_dirs(mesh) == []


async def test_a_service_that_cannot_start_is_quoted(mesh: dict[str, str]) -> None:
    ended = await run("transcribe", URL, **mesh, DUMMY_NORMALIZER="broken")

    assert ended.code == 4
    assert "normalizer ended with code 3" in ended.err
    assert "no module named warp_drive" in ended.err
    assert "Traceback" not in ended.err
    assert alive(mesh) == []
    assert run_dirs(mesh) == []


async def test_a_folder_called_like_a_service_is_not_taken_for_it(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "downloader.py").write_text("raise SystemExit('the wrong one')")

    ended = await run("transcribe", URL, cwd=str(trap), **mesh)

    assert ended.code == 0, ended.err


def up_arguments(tmp_path: Path, first: int) -> list[str]:
    own = ["--port", str(first), "--metrics-port", "0", "--http-port", "0"]
    return ["up", *own, "--data-dir", str(tmp_path / "data")]


def four_free_ports() -> int:
    """The first of four in a row."""
    for first in free_ports(50):
        try:
            with (
                socket.create_server(("127.0.0.1", first + 1)),
                socket.create_server(("127.0.0.1", first + 2)),
                socket.create_server(("127.0.0.1", first + 3)),
            ):
                return first
        except OSError:
            continue
    raise AssertionError("no four free ports in a row")


async def ready_line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(30):
        return (await process.stdout.readline()).decode()


async def test_up_serves_until_it_is_told_to_stop(tmp_path: Path, mesh: dict[str, str]) -> None:
    first = four_free_ports()

    process = await start(*up_arguments(tmp_path, first), **mesh)
    line = await ready_line(process)
    served = await run("transcribe", URL, "--server", f"127.0.0.1:{first}")
    process.send_signal(signal.SIGTERM)
    ended = await finish(process)

    assert f"orchestrator 127.0.0.1:{first}" in line
    assert served.code == 0, served.err
    assert ended.code == 0
    assert f"logs: {tmp_path / 'data' / 'logs'}" in ended.err
    assert "downloader.log" in names_in(tmp_path / "data" / "logs")
    assert alive(mesh) == []


async def test_up_serves_the_web_page_and_says_where(tmp_path: Path, mesh: dict[str, str]) -> None:
    first, http = four_free_ports(), free_ports(1)[0]
    arguments = [*up_arguments(tmp_path, first), "--http-port", str(http)]

    process = await start(*arguments, **mesh)
    lines = [await ready_line(process) for _ in range(3)]
    alive = await answers_http(f"127.0.0.1:{http}")
    process.send_signal(signal.SIGTERM)
    ended = await finish(process)

    assert f"web page: http://127.0.0.1:{http}\n" in lines
    assert alive
    assert ended.code == 0
    assert "gateway.log" in names_in(tmp_path / "data" / "logs")


async def test_a_taken_http_port_is_one_line_that_names_its_option(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        arguments = [*up_arguments(tmp_path, four_free_ports()), "--http-port", port]
        ended = await run(*arguments, **mesh)

    assert ended.code == 4
    assert f"cannot listen on 127.0.0.1:{port} (gateway)" in ended.err
    assert "--http-port" in ended.err
    assert ended.err.count("\n") == 1


async def test_a_second_up_on_the_same_data_is_refused(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    process = await start(*up_arguments(tmp_path, four_free_ports()), **mesh)
    await ready_line(process)

    second = await run(*up_arguments(tmp_path, four_free_ports()), **mesh)
    process.send_signal(signal.SIGINT)
    await finish(process)

    assert second.code == 4
    assert f"another `ytcaption up` (process {process.pid}) uses" in second.err
    assert second.err.count("\n") == 1


async def test_a_taken_port_is_one_line_before_anything_starts(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    first = four_free_ports()
    with socket.create_server(("127.0.0.1", first + 2)):
        ended = await run(*up_arguments(tmp_path, first), **mesh)

    assert ended.code == 4
    assert f"cannot listen on 127.0.0.1:{first + 2} (normalizer)" in ended.err
    assert "--port" in ended.err
    assert ended.err.count("\n") == 1
    assert not (tmp_path / "data" / "logs").exists()


async def test_what_up_stored_is_there_after_it_was_killed(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    async def broker_of(process: asyncio.subprocess.Process) -> str:
        return "nats://" + (await ready_line(process)).rpartition("nats ")[2].strip()

    first = await start(*up_arguments(tmp_path, four_free_ports()), **mesh)
    client = await nats.connect(await broker_of(first))
    await client.jetstream().add_stream(name="T", subjects=["t"])
    await client.jetstream().publish("t", b"kept")
    await client.close()
    first.send_signal(signal.SIGKILL)
    await first.communicate()
    await until(lambda: alive(mesh) == [])

    second = await start(*up_arguments(tmp_path, four_free_ports()), **mesh)
    client = await nats.connect(await broker_of(second))
    kept = await client.jetstream().get_msg("T", 1)
    await client.close()
    second.send_signal(signal.SIGINT)
    await finish(second)

    assert kept.data == b"kept"


async def test_up_starts_a_killed_service_again(tmp_path: Path, mesh: dict[str, str]) -> None:
    process = await start(*up_arguments(tmp_path, four_free_ports()), **mesh)
    await ready_line(process)
    victim = next(
        p
        for p in marked(mesh[MARK])
        if p.cmdline()[-2:] == ["-m", "normalizer"] and "--grace" not in p.cmdline()
    )
    victim.kill()
    assert process.stderr is not None
    said = b""
    async with asyncio.timeout(30):
        while b"normalizer is back" not in said:
            said += await process.stderr.readline()
    process.send_signal(signal.SIGINT)
    await finish(process)

    assert b"normalizer ended with code 137; starting it again" in said


def test_a_run_directory_in_use_is_not_swept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    with run_directory() as first:
        os.utime(first, (0, 0))
        with run_directory() as second:
            assert names_in(tmp_path) == sorted([first.name, second.name])
    assert names_in(tmp_path) == []
    assert first.name.startswith(RUN_PREFIX)


async def test_a_mesh_is_started_for_a_collection_and_leaves_nothing(
    tmp_path: Path, mesh: dict[str, str]
) -> None:
    out = tmp_path / "out"

    ended = await run("collect", URL, "-o", str(out), "-f", "srt", **mesh)

    assert ended.code == 0, ended.err
    assert names_in(out) == ["001 Talk 1.srt", "002 Talk 2.srt"]
    assert alive(mesh) == []
    assert run_dirs(mesh) == []
