"""What each role may do on a real broker, and what the broker refuses."""

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import nats
import nkeys
import psutil
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from mesh.bus import Bus
from mesh.credentials import make_keys, seed_file
from mesh.stores import Limits
from orchestrator.jobs.index import JobIndex
from orchestrator.jobs.storage import JobStorage
from orchestrator.tasks.exchange import Exchange
from orchestrator.tasks.queue import TaskQueue
from orchestrator.tasks.records import TaskIndex, TaskStore
from orchestrator.tasks.storage import TaskStorage
from tests.orchestrator.events.outbox import outbox_on
from tests.support.broker import Broker, running_broker
from tests.support.polling import until

LIMITS = Limits(storage_bytes=256 * 1024**2)
ANSWER_SECONDS = 60.0
JOB = "0193b3a0-0000-7000-8000-000000000000"
IN = "ytc.in.iniciar_coleta"
OUT = "ytc.out.resultado_execucao"
READS = "$JS.API.DIRECT.GET.YTC_OUTBOX"
RESULTS = ("ytc.in.resultado_coleta", "ytc.in.resultado_execucao")
GRANTED = {
    "producer": {IN, *RESULTS},
    "listener": {
        READS,
        "$JS.API.CONSUMER.MSG.NEXT.YTC_OUTBOX.listener",
        "$JS.ACK.YTC_OUTBOX.listener.1.1.1.1.0",
    },
    "bridge": {
        IN,
        *RESULTS,
        READS,
        "$JS.API.CONSUMER.MSG.NEXT.YTC_OUTBOX.bridge",
        "$JS.ACK.YTC_OUTBOX.bridge.1.1.1.1.0",
    },
    "worker": {
        *RESULTS,
        "$JS.API.CONSUMER.MSG.NEXT.YTC_QUEUES.blog",
        "$JS.ACK.YTC_QUEUES.blog.1.1.1.1.0",
    },
}
PUBLISHED = sorted(
    {
        *set().union(*GRANTED.values()),
        OUT,
        f"ytc.events.{JOB}.job_finished",
        f"ytc.work.high-00.{JOB}",
        f"ytc.collections.{JOB}",
        f"ytc.dlq.{JOB}",
        "ytc.webhooks.forged",
        "ytc.deliveries.forged",
        f"ytc.live.{JOB}.event",
        f"ytc.cancel.{JOB}",
        f"$KV.YTC_JOBS.{JOB}",
        f"$KV.YTC_JOBS.task.{JOB}",
        f"ytc.tasks.collector.blog.{JOB}",
        f"ytc.answers.{JOB}",
        "ytc.queue.blog",
        "$JS.API.STREAM.MSG.GET.YTC_QUEUES",
        "$JS.API.CONSUMER.CREATE.YTC_QUEUES",
        "$JS.API.CONSUMER.MSG.NEXT.YTC_TASKS.collector-blog",
        "$O.YTC_ARTIFACTS.C.chunk",
        "$O.YTC_ARTIFACTS.M.file",
        "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.YTC_WORK.high-00",
        "$JS.API.INFO",
        "$JS.API.STREAM.NAMES",
        "$JS.API.STREAM.CREATE.MINE",
        "$JS.API.STREAM.DELETE.YTC_EVENTS",
        "$JS.API.STREAM.PURGE.YTC_OUTBOX",
        "$JS.API.STREAM.MSG.GET.YTC_EVENTS",
        "$JS.API.STREAM.MSG.DELETE.YTC_OUTBOX",
        "$JS.API.DIRECT.GET.YTC_EVENTS",
        "$JS.API.DIRECT.GET.KV_YTC_JOBS",
        "$JS.API.CONSUMER.CREATE.YTC_OUTBOX",
        "$JS.API.CONSUMER.CREATE.YTC_OUTBOX.mine",
        "$JS.API.CONSUMER.DURABLE.CREATE.YTC_OUTBOX.mine",
        "$JS.API.CONSUMER.DELETE.YTC_OUTBOX.bridge",
        "$JS.API.CONSUMER.MSG.NEXT.YTC_WEBHOOKS.sender",
        "$JS.ACK.YTC_WEBHOOKS.sender.1.1.1.1.0",
        "$SYS.REQ.SERVER.PING",
        "anything",
    }
)
HEARD = {
    "producer": [],
    "listener": ["ytc.out.>", OUT],
    "bridge": ["ytc.out.>", OUT],
    "worker": [],
}
SUBSCRIBED = [
    *(">", "*.>", "ytc.>", "ytc.out.>", OUT, "ytc.in.>", "ytc.events.>", "ytc.live.>"),
    *("ytc.webhooks.*", "$KV.>", "$O.>", "$JS.>", "$JS.EVENT.>", "$SYS.>"),
]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with running_broker(tmp_path / "nats") as running:
        yield running


@pytest.fixture
async def bus(broker: Broker) -> AsyncIterator[Bus]:
    """The orchestrator's connection: all streams and consumers exist."""
    async with Bus.connected(
        broker.url,
        credentials=broker.credentials,
        limits=LIMITS,
        answer_seconds=ANSWER_SECONDS,
    ) as connected:
        await outbox_on(connected).create()
        exchange = Exchange(
            TaskStorage(
                JobStorage.on(connected),
                TaskStore(connected),
                TaskQueue(connected),
                TaskIndex(JobIndex(connected)),
            )
        )
        await exchange.create_queue("blog")
        yield connected


@asynccontextmanager
async def client_of(broker: Broker, role: str) -> AsyncIterator[tuple[Client, list[str]]]:
    """A client with a role's key, and the errors the broker reports to it."""
    errors: list[str] = []

    async def note(error: Exception) -> None:
        errors.append(str(error))

    client = await nats.connect(broker.url, nkeys_seed=broker.key(role), error_cb=note)
    try:
        yield client, errors
    finally:
        await client.close()


async def _state(bus: Bus) -> dict[str | None, tuple[int, int, int]]:
    """Of every stream what it holds, and how many consumers it has."""
    streams = await bus.jetstream.streams_info()
    return {
        one.config.name: (one.state.messages, one.state.last_seq, one.state.consumer_count)
        for one in streams
    }


async def _refused(**login: Any) -> str:
    errors: list[str] = []

    async def note(error: Exception) -> None:
        errors.append(str(error))

    client = Client()
    with suppress(NatsError):
        await client.connect(allow_reconnect=False, error_cb=note, **login)
    await client.close()
    return " ".join(errors)


async def test_a_connection_without_a_key_or_with_an_unknown_one_is_refused(
    broker: Broker, tmp_path: Path
) -> None:
    unknown = tmp_path / "unknown.nk"
    seed = nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER)
    unknown.write_bytes(seed)

    for login in (
        {},
        {"user": "orchestrator", "password": "orchestrator"},
        {"token": "orchestrator"},
        {"nkeys_seed": str(unknown)},
    ):
        assert "Authorization Violation" in await _refused(servers=broker.url, **login)


async def test_the_broker_listens_on_one_port_of_loopback(broker: Broker) -> None:
    listening = [
        (one.laddr.ip, one.laddr.port)
        for one in psutil.Process(broker.pid).net_connections()
        if one.status == psutil.CONN_LISTEN
    ]

    assert listening == [("127.0.0.1", int(broker.url.rpartition(":")[2]))]


@pytest.mark.parametrize("role", GRANTED)
async def test_a_role_publishes_only_what_it_needs_and_changes_nothing_else(
    broker: Broker, bus: Bus, role: str
) -> None:
    before = await _state(bus)
    async with client_of(broker, role) as (client, errors):
        for subject in PUBLISHED:
            if subject not in GRANTED[role]:
                await client.publish(subject, b'{"name": "MINE", "config": {"name": "MINE"}}')
        await client.flush(60)
        await until(lambda: len(errors) == len(PUBLISHED) - len(GRANTED[role]))

    refused = [f'nats: permissions violation for publish to "{one.lower()}"' for one in PUBLISHED]
    allowed = [one for one, error in zip(PUBLISHED, refused, strict=True) if error not in errors]
    assert set(allowed) == GRANTED[role]
    assert await _state(bus) == before


@pytest.mark.parametrize("role", GRANTED)
async def test_a_role_hears_only_what_it_needs(broker: Broker, bus: Bus, role: str) -> None:
    async with client_of(broker, role) as (client, errors):
        for subject in SUBSCRIBED:
            await client.subscribe(subject)
        await client.flush(60)
        await until(lambda: len(errors) == len(SUBSCRIBED) - len(HEARD[role]))

    text = " ".join(errors)
    heard = [one for one in SUBSCRIBED if f'subscription to "{one.lower()}"' not in text]
    assert heard == HEARD[role]


async def test_a_producer_gets_the_acknowledgement_of_the_inbox(broker: Broker, bus: Bus) -> None:
    async with client_of(broker, "producer") as (client, _):
        stored = await client.jetstream(timeout=ANSWER_SECONDS).publish(IN, b"{}")
        await client.publish(IN, b"without an answer")
        await client.flush(60)

    assert (stored.stream, stored.seq) == ("YTC_INBOX", 1)
    found = [one.data async for one in bus.read("YTC_INBOX", IN)]
    assert found == [b"{}", b"without an answer"]


async def test_a_listener_reads_what_was_published_live_later_and_once(
    broker: Broker, bus: Bus
) -> None:
    async with client_of(broker, "listener") as (client, errors):
        js = client.jetstream(timeout=ANSWER_SECONDS)
        live = await client.subscribe("ytc.out.>")
        await client.flush(60)
        await bus.publish(OUT, b"first")
        await bus.publish(OUT, b"second")
        now = await live.next_msg(60)
        read = await js.get_msg("YTC_OUTBOX", 1, direct=True, next=True, subject=">")
        consumer = await js.pull_subscribe_bind("listener", stream="YTC_OUTBOX")
        [one] = await consumer.fetch(1, timeout=60)
        await one.ack_sync(60)
    async with client_of(broker, "listener") as (client, _):
        js = client.jetstream(timeout=ANSWER_SECONDS)
        consumer = await js.pull_subscribe_bind("listener", stream="YTC_OUTBOX")
        [two] = await consumer.fetch(1, timeout=60)

    assert [now.data, read.data, one.data, two.data] == [b"first", b"first", b"first", b"second"]
    assert errors == []


@asynccontextmanager
async def _reached(bus: Bus, *subjects: str) -> AsyncIterator[list[tuple[str, bytes]]]:
    """What arrives on subjects of the orchestrator, which it listens to as it does in life."""
    arrived: list[tuple[str, bytes]] = []

    async def note(message: Msg) -> None:
        arrived.append((message.subject, message.data))

    subscribed = [await bus.client.subscribe(subject, cb=note) for subject in subjects]
    await bus.client.flush(60)
    yield arrived
    await bus.client.flush(60)
    for one in subscribed:
        await one.unsubscribe()


@pytest.mark.parametrize("role", GRANTED)
async def test_no_role_has_the_broker_answer_on_a_subject_of_the_orchestrator(
    broker: Broker, bus: Bus, role: str
) -> None:
    """A reply subject is written by the broker, so permissions to publish do not guard it."""
    await bus.put_key(JOB, b"record", 0)
    await bus.publish(OUT, b"an event")
    await bus.publish("ytc.queue.blog", b"a task")
    targets = (f"$KV.YTC_JOBS.{JOB}", "ytc.webhooks.forged", f"ytc.cancel.{JOB}")
    before = await _state(bus)
    async with (
        _reached(bus, *targets) as arrived,
        client_of(broker, role) as (client, errors),
    ):
        answers = await client.subscribe("_INBOX.mine")
        for subject in sorted(one for one in GRANTED[role] if "$JS.ACK" not in one):
            request = b'{"seq": 1}' if subject == READS else b"1"
            for target in (*targets, "_INBOX.mine"):
                await client.publish(subject, request, reply=target)
            # The broker answers in order: by now it has answered the requests before.
            answer = await answers.next_msg(60)
            assert b"error" not in answer.data
            if answer.reply:  # an event of the consumer: let the next request have one
                await client.publish(answer.reply, b"-NAK")
        await client.flush(60)

    after = await _state(bus)
    assert arrived == []
    assert errors == []
    changed = {name for name in after if after[name] != before[name]}
    may_ask = any(one.startswith("ytc.in.") for one in GRANTED[role])
    assert changed <= ({"YTC_INBOX"} if may_ask else set())
    kept = await bus.get_key(JOB)
    assert kept is not None
    assert kept.data == b"record"


async def test_answers_to_the_orchestrator_are_heard_by_no_other_role(
    broker: Broker, bus: Bus
) -> None:
    await bus.put_key(JOB, b"record", 0)
    async with (
        client_of(broker, "producer") as (producer, _),
        client_of(broker, "listener") as (listener, _),
    ):
        spied = [await one.subscribe("_INBOX.>") for one in (producer, listener)]
        await producer.flush(60)
        await listener.flush(60)

        assert await bus.get_key(JOB) is not None
        await bus.publish(OUT, b"an event")
        await producer.flush(60)
        await listener.flush(60)

        assert [one.pending_msgs for one in spied] == [0, 0]


async def _orchestrator(url: str, credentials: str, folder: Path) -> asyncio.subprocess.Process:
    settings = {
        "ORCHESTRATOR_NATS_URL": url,
        "ORCHESTRATOR_NATS_CREDENTIALS": credentials,
        "ORCHESTRATOR_STORAGE_BYTES": str(LIMITS.storage_bytes),
        "ORCHESTRATOR_LISTEN": "127.0.0.1:0",
        "ORCHESTRATOR_METRICS_LISTEN": "",
        "ORCHESTRATOR_WORK_DIR": str(folder / "work"),
    }
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "orchestrator"),
        env={**os.environ, **settings},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def test_a_replaced_key_ends_the_orchestrator_instead_of_leaving_it_without_a_store(
    broker: Broker, tmp_path: Path
) -> None:
    process = await _orchestrator(broker.url, broker.credentials, tmp_path)
    assert process.stdout is not None
    async with asyncio.timeout(200):
        while b"listening" not in await process.stdout.readline():
            assert process.returncode is None
    folder = Path(broker.credentials).parent
    seed_file(folder, "orchestrator").unlink()
    make_keys(folder)

    os.kill(broker.pid, signal.SIGHUP)
    printed = (await asyncio.wait_for(process.communicate(), 200))[0].decode()

    assert process.returncode != 0
    assert f"refuses the credentials in {broker.credentials}" in printed


def _foreign_seed(folder: Path) -> str:
    make_keys(folder / "elsewhere")
    return str(seed_file(folder / "elsewhere", "orchestrator"))


def _password(folder: Path) -> str:
    path = folder / "password"
    path.write_text("orchestrator:Hunter2\n")
    return str(path)


def _damaged_seed(folder: Path) -> str:
    path = folder / "damaged.nk"
    path.write_text("SUADAMAGEDSEED\n")
    return str(path)


def _content(file: str) -> str:
    return Path(file).read_text().strip() if Path(file).is_file() else ""


@pytest.mark.parametrize(
    ("credentials", "words"),
    [
        (lambda _: "", "refuses our login"),
        (_foreign_seed, "refuses the credentials in"),
        (_password, "refuses the credentials in"),
        (_damaged_seed, "not an nkey seed"),
        (lambda folder: str(folder / "missing"), "No such file"),
    ],
)
async def test_an_orchestrator_that_is_refused_ends_at_once_and_says_why(
    broker: Broker, tmp_path: Path, credentials: Callable[[Path], str], words: str
) -> None:
    file = credentials(tmp_path)
    url = broker.url.replace("//", "//someone:Hunter2@")
    process = await _orchestrator(url, file, tmp_path)
    printed = (await asyncio.wait_for(process.communicate(), 120))[0].decode()

    assert process.returncode == 78
    assert words in printed
    assert file in printed
    assert "(STORAGE_FORBIDDEN)" in printed
    assert "Traceback" not in printed
    assert "Hunter2" not in printed
    secret = await asyncio.to_thread(_content, file)
    assert not secret or secret not in printed
