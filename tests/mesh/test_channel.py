"""Channels to replicas: by name, by IP address of both families, in lists, and as they change."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import grpc
import pytest

from mesh.addresses import free_ports, resolve
from mesh.channel import open_channel
from mesh.errors import InvalidRequestError
from mesh.server import Service, running_server
from ytcaption.v1 import downloader_service_pb2 as pb
from ytcaption.v1 import downloader_service_pb2_grpc as rpc

NAME = "ytcaption.v1.DownloaderService"
HELD = "https://held.test/"


class Replica(rpc.DownloaderServiceServicer):
    """Counts its calls; a call for `HELD` answers at once, but ends only when `release` is set."""

    def __init__(self) -> None:
        self.calls = 0
        self.release = asyncio.Event()

    async def Download(  # noqa: N802
        self, request: pb.DownloadRequest, context: Any
    ) -> AsyncIterator[pb.DownloadResponse]:
        self.calls += 1
        yield pb.DownloadResponse()
        if request.source_url == HELD:
            await self.release.wait()
        yield pb.DownloadResponse()


@asynccontextmanager
async def replica(listen: str) -> AsyncIterator[Replica]:
    servicer = Replica()  # type: ignore[abstract] # the rest is left unbuilt on purpose
    service = Service.of(
        pb.DESCRIPTOR.services_by_name["DownloaderService"],
        rpc.add_DownloaderServiceServicer_to_server,
        servicer,
    )
    async with running_server([service], listen, grace_seconds=0):
        yield servicer


class Names:
    """A resolver whose names change; names it does not have do not exist."""

    def __init__(self, **found: list[str]) -> None:
        self.found = found
        self.asked = 0

    async def __call__(self, host: str) -> list[str]:
        self.asked += 1
        if host not in self.found:
            raise OSError(f"no address of {host}")
        return self.found[host]


async def until_reached(channel: grpc.aio.Channel, *replicas: Replica) -> None:
    """Calls until each of the replicas has got one more; those that are not there yet may fail."""
    stub = rpc.DownloaderServiceStub(channel)
    before = [one.calls for one in replicas]
    async with asyncio.timeout(60):
        while any(one.calls == count for one, count in zip(replicas, before, strict=True)):
            with suppress(grpc.aio.AioRpcError):
                assert len([r async for r in stub.Download(pb.DownloadRequest())]) == 2


@pytest.mark.parametrize(
    ("listening", "addresses"),
    [
        (["127.0.0.1:{0}", "127.0.0.1:{1}"], "127.0.0.1:{0}, 127.0.0.1:{1}"),
        (["[::1]:{0}", "[::1]:{1}"], "[::1]:{0},[::1]:{1}"),
        (["127.0.0.1:{0}", "[::1]:{1}"], "127.0.0.1:{0},[::1]:{1}"),
        (["127.0.0.1:{0}", "127.0.0.2:{1}"], "host-a:{0},host-b:{1}"),
        (["127.0.0.1:{0}", "127.0.0.2:{1}", "[::1]:{0}"], "127.0.0.1:{0},host-b:{1},[::1]:{0}"),
        (["127.0.0.1:{0}", "127.0.0.2:{0}"], "both:{0}"),
        (["127.0.0.1:{0}", "[::1]:{0}"], "families:{0}"),
    ],
    ids=["IPv4", "IPv6", "mixed", "names", "names and numbers", "one name", "one name, mixed"],
)
async def test_calls_reach_every_replica(listening: list[str], addresses: str) -> None:
    ports = free_ports(2)
    names = Names(
        **{
            "host-a": ["127.0.0.1"],
            "host-b": ["127.0.0.2"],
            "both": ["127.0.0.1", "127.0.0.2"],
            "families": ["127.0.0.1", "::1"],
        }
    )
    async with AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(replica(listen.format(*ports))) for listen in listening
        ]
        channel = await stack.enter_async_context(
            open_channel(addresses.format(*ports), NAME, resolve=names)
        )
        await until_reached(channel, *replicas)


async def test_a_name_is_looked_up_by_the_systems_resolver() -> None:
    ports = free_ports(2)
    addresses = ",".join(f"localhost:{port}" for port in ports)
    async with (
        replica(f"127.0.0.1:{ports[0]}") as first,
        replica(f"127.0.0.1:{ports[1]}") as second,
        open_channel(addresses, NAME) as channel,
    ):
        await until_reached(channel, first, second)

    assert "127.0.0.1" in await resolve("localhost")


async def test_a_replica_that_comes_later_or_back_behind_one_name_gets_calls() -> None:
    (port,) = free_ports(1)
    names = Names(transcriber=["127.0.0.1"])
    async with (
        replica(f"127.0.0.1:{port}") as first,
        open_channel(f"transcriber:{port}", NAME, resolve=names, every_seconds=0.01) as channel,
    ):
        await until_reached(channel, first)
        for _ in range(2):
            async with replica(f"127.0.0.2:{port}") as second:
                names.found["transcriber"] = ["127.0.0.1", "127.0.0.2"]
                await until_reached(channel, first, second)
            names.found["transcriber"] = ["127.0.0.1"]
            await until_reached(channel, first)


async def test_a_call_under_way_survives_a_change_of_the_replicas() -> None:
    (port,) = free_ports(1)
    names = Names(transcriber=["127.0.0.1"])
    async with (
        replica(f"127.0.0.1:{port}") as first,
        replica(f"127.0.0.2:{port}") as second,
        open_channel(f"transcriber:{port}", NAME, resolve=names, every_seconds=0.01) as channel,
    ):
        watch = rpc.DownloaderServiceStub(channel).Download(
            pb.DownloadRequest(source_url=HELD), wait_for_ready=True
        )
        received = [await anext(aiter(watch))]
        names.found["transcriber"] = ["127.0.0.2"]
        await until_reached(channel, second)
        first.release.set()
        received += [response async for response in watch]

    assert len(received) == 2


async def test_a_name_that_cannot_be_looked_up_keeps_its_addresses() -> None:
    (port,) = free_ports(1)
    names = Names(transcriber=["127.0.0.1"])
    async with (
        replica(f"127.0.0.1:{port}") as first,
        open_channel(f"transcriber:{port}", NAME, resolve=names, every_seconds=0.01) as channel,
    ):
        del names.found["transcriber"]
        asked = names.asked
        while names.asked < asked + 2:
            await until_reached(channel, first)


async def test_a_name_that_becomes_known_later_is_used() -> None:
    (port,) = free_ports(1)
    names = Names()
    async with (
        replica(f"127.0.0.1:{port}") as first,
        open_channel(f"later.invalid:{port}", NAME, resolve=names, every_seconds=0.01) as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await anext(aiter(rpc.DownloaderServiceStub(channel).Download(pb.DownloadRequest())))
        names.found["later.invalid"] = ["127.0.0.1"]
        await until_reached(channel, first)

    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("addresses", ["", "host", "host:99999"])
async def test_an_address_without_a_port_is_refused(addresses: str) -> None:
    with pytest.raises(InvalidRequestError, match="is not host:port"):
        async with open_channel(addresses, NAME):
            pass
