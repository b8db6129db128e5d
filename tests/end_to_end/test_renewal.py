"""Certificates, keys and authorities are replaced under a mesh at work, and no call is lost."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import grpc
import pytest

from cli.local.certs import NAMES
from mesh.channel import open_channel, open_direct_channel
from mesh.frames import truthful
from mesh.tls import Tls
from tests.conftest import DATA, RealMesh, certificates_in, running_mesh
from tests.end_to_end.spoken import chunks_of
from tests.support.certificates import Authority, shown
from tests.support.client import Client
from tests.support.http import all_events
from tests.support.polling import until
from tests.support.site import Site
from ytcaption.v1 import job_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb

SERVICE = "ytcaption.v1.PipelineService"
LIST = pb.ListJobsRequest(page_size=1)
PAUSE_SECONDS = 0.01
STREAMS = 4
RENEWED = "replicas changed"
"""What a service logs when its calls begin to use new files."""
CALLED = {"orchestrator": 3, "gateway": 1}
"""How many services each calls."""


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealMesh]:
    folder = tmp_path_factory.mktemp("renewed")
    with running_mesh(folder, certs=str(certificates_in(folder / "certs"))) as running:
        yield running


@dataclass
class Load:
    """Callers that go on until they are told to stop; a call that fails fails the test."""

    mesh: RealMesh
    spoken_url: str
    done: dict[str, int] = field(default_factory=dict)
    """By caller: calls that ended well."""
    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    async def repeat(self, name: str, call: Callable[[], Awaitable[object]]) -> None:
        self.done[name] = 0
        while not self.stopped.is_set():
            await call()
            self.done[name] += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def on_one_connection(self, name: str) -> None:
        async with self.mesh.channel() as channel:
            await self.repeat(name, lambda: Client(channel).pipeline.ListJobs(LIST))

    async def on_a_channel_of_ours(self, name: str) -> None:
        files = self.mesh.tls()
        async with open_channel(self.mesh.server, SERVICE, tls=files, every_seconds=0.1) as channel:
            await self.repeat(name, lambda: Client(channel).pipeline.ListJobs(LIST))

    async def on_new_connections(self, name: str) -> None:
        async def call() -> None:
            async with self.mesh.channel() as channel:
                await Client(channel).pipeline.ListJobs(LIST)

        await self.repeat(name, call)

    async def over_http(self, name: str) -> None:
        async with self.mesh.browser() as http:

            async def call() -> None:
                assert (await http.get("/jobs?limit=1")).status_code == 200

            await self.repeat(name, call)

    async def over_http_on_new_connections(self, name: str) -> None:
        async def call() -> None:
            async with self.mesh.browser() as http:
                assert (await http.get("/jobs?limit=1")).status_code == 200

        await self.repeat(name, call)

    async def jobs(self, name: str) -> None:
        async with self.mesh.channel() as channel:
            client = Client(channel)

            async def run() -> None:
                ended = await client.finished((await client.create(self.spoken_url)).job_id)
                # A call between services that was lost would have cost an attempt.
                assert (ended.state, ended.attempt) == (job_pb2.JOB_STATE_SUCCEEDED, 1)

            await self.repeat(name, run)

    async def upload(self) -> job_pb2.Job:
        """One call that sends a frame now and then, until the load stops."""
        head, *rest = chunks_of(DATA / "short.ogg")
        whole = head + b"".join(rest)

        async def frames() -> AsyncIterator[pb.CreateJobFromUploadRequest]:
            yield pb.CreateJobFromUploadRequest(start=pb.UploadStart(file_name="a.ogg", force=True))
            sent = 0
            while not self.stopped.is_set():
                if sent < len(whole) - 100:
                    yield pb.CreateJobFromUploadRequest(chunk=whole[sent : sent + 100])
                    sent += 100
                await asyncio.sleep(0.1)
            yield pb.CreateJobFromUploadRequest(chunk=whole[sent:])

        async with self.mesh.channel() as channel:
            client = Client(channel)
            job = (await truthful(client.pipeline.CreateJobFromUpload(frames()))).job
            return await client.finished(job.job_id)

    async def all_went_on(self) -> None:
        """Returns when every caller has begun and ended a call since."""
        before = dict(self.done)
        await until(lambda: all(self.done[name] > done + 1 for name, done in before.items()))

    async def watch(self, job_id: str) -> list[int]:
        """The sequences of all events, over gRPC."""
        async with self.mesh.channel() as channel:
            watched = Client(channel).watch(job_id)
            return [seen.sequence async for seen in watched if seen.sequence]

    async def follow(self, job_id: str) -> list[int]:
        """The same over HTTP."""
        async with self.mesh.browser() as http:
            received = await all_events(http, f"/jobs/{job_id}")
            return [event.id for event in received if event.id is not None]


def install(authority: Authority, certs: Path) -> None:
    """Replaces certificate and key of every service, one file after the other."""
    for name in NAMES:
        issued = authority.issue(name)
        shutil.copy(issued.key, certs / f"{name}.key")
        shutil.copy(issued.certificate, certs / f"{name}.crt")


def calls_renewed(mesh: RealMesh, service: str) -> int:
    return (mesh.data_dir / "logs" / f"{service}.log").read_text().count(RENEWED)


async def test_files_that_are_replaced_under_load_lose_no_call(
    mesh: RealMesh, site: Site, spoken_url: str, tmp_path: Path
) -> None:
    certs, load = Path(mesh.certs), Load(mesh, spoken_url)
    first, second = Authority(tmp_path / "first"), Authority(tmp_path / "second")
    before = (certs / "ca.crt").read_bytes()
    host, port = mesh.server.split(":")
    servers = {
        "orchestrator": mesh.server,
        "downloader": f"{host}:{int(port) + 1}",
        "transcriber": f"{host}:{int(port) + 3}",
        "gateway": mesh.http.removeprefix("https://"),
    }
    async with mesh.channel() as channel:
        site.release.clear()
        held = (await Client(channel).create(f"{site.url}/held/sample.ogg")).job_id
    streams = [
        asyncio.create_task(way(held)) for way in (load.watch, load.follow) for _ in range(STREAMS)
    ]
    upload = asyncio.create_task(load.upload())

    async def replace(change: Callable[[], object]) -> None:
        """Replaces files; returns once every service uses them and every caller went on."""
        renewed = {service: calls_renewed(mesh, service) for service in CALLED}
        change()
        for service, number in CALLED.items():
            wanted = renewed[service] + number
            await until(partial(_reaches, mesh, service, wanted))
        await load.all_went_on()
        for name, address in servers.items():
            seen = await asyncio.to_thread(shown, address, mesh.tls("orchestrator"))
            assert seen == (certs / f"{name}.crt").read_text(), name
        await until(partial(_broker_shows, mesh, (certs / "nats.crt").read_text()))

    async with asyncio.TaskGroup() as callers:
        for way in (
            load.on_one_connection, load.on_a_channel_of_ours, load.on_new_connections,
            load.over_http, load.over_http_on_new_connections,
        ):  # fmt: skip
            for number in range(3):
                name = f"{way.__name__} {number}"
                callers.create_task(way(name))
        callers.create_task(load.jobs("jobs"))
        await until(lambda: len(load.done) == 16)

        both = before + first.file.read_bytes()
        await replace(lambda: (certs / "ca.crt").write_bytes(both))
        for _ in range(3):
            await replace(partial(install, first, certs))
        three = first.file.read_bytes() + second.file.read_bytes()
        await replace(lambda: (certs / "ca.crt").write_bytes(three))
        await replace(partial(install, second, certs))
        await replace(lambda: (certs / "ca.crt").write_bytes(second.file.read_bytes()))
        assert not any(one.done() for one in (*streams, upload))
        site.release.set()
        received = await asyncio.gather(*streams)
        load.stopped.set()

    assert (await upload).state == job_pb2.JOB_STATE_SUCCEEDED
    assert len(received[0]) > 10
    assert all(one == received[0] for one in received)
    await _assert_refused(mesh, Authority(tmp_path / "foreign").issue("client"))
    await _assert_refused(mesh, first.issue("client"))


async def _broker_shows(mesh: RealMesh, certificate: str) -> bool:
    """It is asked to read its files again a few seconds after they were replaced."""
    found = re.search(
        r"^events: tls://(\S+),", (mesh.data_dir / "up.log").read_text(), re.MULTILINE
    )
    assert found
    return await asyncio.to_thread(shown, found[1], mesh.tls(), after_a_line=True) == certificate


def _reaches(mesh: RealMesh, service: str, number: int) -> bool:
    return calls_renewed(mesh, service) >= number


async def _assert_refused(mesh: RealMesh, stranger: Tls) -> None:
    """A certificate of another authority, also of one that was trusted before."""
    caller = Tls(stranger.certificate, stranger.key, mesh.tls().ca)
    async with open_direct_channel(mesh.server, caller) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await Client(channel).pipeline.ListJobs(LIST)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
