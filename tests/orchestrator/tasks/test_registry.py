"""The registry: types of the settings and of admins, for all replicas, refused while unusable."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import grpc
import pytest
from google.protobuf.duration import from_timedelta
from prometheus_client import REGISTRY

from mesh.addresses import free_ports
from mesh.bus import Bus, outlast
from mesh.errors import InvalidRequestError, MeshError, UnavailableError
from mesh.reasons import Reason
from mesh.tasks import stop
from orchestrator.settings import Settings
from orchestrator.tasks import registry as registry_module
from orchestrator.tasks.declared import declared
from orchestrator.tasks.registry import Registry
from orchestrator.tasks.types import COLLECTOR, EXECUTOR, Registered
from tests.orchestrator.conftest import Start, connected
from tests.orchestrator.tasks.services import Stranger, collector, executor, recording, serving
from tests.support.broker import running_broker
from tests.support.client import Client, refusal
from tests.support.polling import until
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import collector_service_pb2 as collector_pb
from ytcaption.v1 import task_pb2

GRPC, QUEUE = task_pb2.TASK_TRANSPORT_GRPC, task_pb2.TASK_TRANSPORT_QUEUE


@asynccontextmanager
async def registry_on(
    bus: Bus, *built_in: Registered, look_seconds: float = 0.05, **settings: Any
) -> AsyncIterator[Registry]:
    """A registry of one replica, with its loops."""
    quick: dict[str, Any] = {"circuit_seconds": 0.01} | settings
    async with Registry.opened(
        bus, Settings(**quick), built_in, look_seconds=look_seconds
    ) as registry:
        await registry.catch_up()
        loops = [
            asyncio.create_task(outlast(loop)) for loop in (registry.follow, registry.watch_health)
        ]
        try:
            yield registry
        finally:
            await stop(*loops)


def request(name: str, *addresses: str, **fields: Any) -> pb.RegisterTypeRequest:
    usual = {"role": COLLECTOR, "transport": GRPC if addresses else QUEUE}
    return pb.RegisterTypeRequest(type=name, addresses=addresses, **(usual | fields))


def names(registry: Registry, role: Any = COLLECTOR) -> list[str]:
    return [one.type for one in registry.known(role)]


async def refused(work: Any) -> MeshError:
    with pytest.raises(MeshError) as caught:
        await work
    return caught.value


async def test_a_registered_service_is_found_with_what_it_says_about_itself(
    broker_bus: Bus,
) -> None:
    async with serving(collector(Stranger())) as address, registry_on(broker_bus) as registry:
        made = await registry.register(
            request(
                "blog",
                address,
                max_in_flight=3,
                timeout=from_timedelta(timedelta(seconds=7)),
            )
        )

        found = registry.find(COLLECTOR, "blog")
    assert (made.description.summary, made.healthy, made.removable) == ("Of a test", True, True)
    assert (found.max_in_flight, found.timeout_seconds) == (3, 7)
    assert found.collector is not None


async def test_a_registration_reaches_every_replica_and_survives_a_restart_of_the_broker(
    tmp_path: Any,
) -> None:
    port = free_ports(1)[0]
    async with serving(collector(Stranger())) as address:
        async with running_broker(tmp_path, port) as broker:
            bus_of = connected(broker)
            bus = await bus_of.__aenter__()
            registry_of = registry_on(bus)
            other = await registry_of.__aenter__()
            async with connected(broker) as own, registry_on(own) as registry:
                await registry.register(request("blog", address))
                await until(lambda: names(other) == ["blog"])
        try:
            async with (
                running_broker(tmp_path, port) as broker,
                connected(broker) as own,
                registry_on(own) as registry,
            ):
                assert names(registry) == ["blog"]
                await registry.register(request("feed"))
                await until(lambda: names(other) == ["blog", "feed"])
                assert await registry.unregister(COLLECTOR, "blog")
                await until(lambda: names(other) == ["feed"])
        finally:
            await registry_of.__aexit__(None, None, None)
            await bus_of.__aexit__(None, None, None)


async def test_those_who_wait_for_a_change_learn_of_it(broker_bus: Bus) -> None:
    async with registry_on(broker_bus) as registry:
        waiting = asyncio.create_task(registry.changed())
        await asyncio.sleep(0)
        await registry.register(request("feed"))
        async with asyncio.timeout(60):
            await waiting


async def test_a_service_that_does_not_answer_is_not_registered(broker_bus: Bus) -> None:
    port = free_ports(1)[0]
    async with registry_on(broker_bus) as registry:
        error = await refused(registry.register(request("blog", f"127.0.0.1:{port}")))

        assert error.reason == Reason.COLLECTOR_UNAVAILABLE
        assert names(registry) == []


async def test_a_service_that_does_not_serve_the_type_is_not_registered(broker_bus: Bus) -> None:
    script = Stranger(types=("news", "forum"))
    async with serving(collector(script)) as address, registry_on(broker_bus) as registry:
        error = await refused(registry.register(request("blog", address)))

    assert error.reason == Reason.TYPE_UNKNOWN
    assert "forum, news" in str(error)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"properties": {"a": {"pattern": "("}}},
        {"$ref": "http://127.0.0.1:9/elsewhere.json"},
        {"$ref": "file:///etc/hostname"},
        {"description": "x" * 70_000},
    ],
)
async def test_a_schema_that_cannot_be_used_is_refused(
    broker_bus: Bus, schema: dict[str, Any]
) -> None:
    script = Stranger(schema=schema)
    async with serving(collector(script)) as address, registry_on(broker_bus) as registry:
        error = await refused(registry.register(request("blog", address)))

    assert error.reason == Reason.SCHEMA_INVALID


@pytest.mark.parametrize(
    "wrong",
    [
        request("no blanks"),
        request(""),
        request("x" * 41),
        request("blog", role=0),
        request("blog", transport=task_pb2.TASK_TRANSPORT_BUILT_IN),
        request("blog", transport=GRPC),
        request("blog", "127.0.0.1:1", transport=QUEUE),
        request("blog", *(f"127.0.0.1:{port}" for port in range(1, 18))),
        request("blog", "127.0.0.1:1", "127.0.0.1:1"),
        request("blog", "127.0.0.1"),
        request("blog", "127.0.0.1:0"),
        request("blog", "127.0.0.1:99999"),
        request("blog", "unix:/run/x.sock:1"),
        request("blog", "dns:///host:1"),
        request("blog", "::1:50051"),
        request("blog", "ho st:1"),
        request("blog", max_in_flight=-1),
        request("blog", max_in_flight=1001),
        request("blog", timeout={"seconds": -1}),
        request("blog", timeout={"seconds": 90_000}),
        request("blog", timeout={"seconds": 2**62}),
    ],
    ids=str,
)
def test_a_registration_that_can_never_work_is_refused(wrong: pb.RegisterTypeRequest) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        declared(wrong)

    assert caught.value.reason == Reason.REQUEST_INVALID


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:50051", "blog:1", "blog_2.inner:65535"])
def test_addresses_are_hosts_and_ports(address: str) -> None:
    assert declared(request("blog", address)).addresses == [address]


async def test_an_unknown_type_is_refused_with_the_known_ones(broker_bus: Bus) -> None:
    async with registry_on(broker_bus, collectors="feed=queue;blog=queue") as registry:
        with pytest.raises(InvalidRequestError, match="there are: blog, feed") as caught:
            registry.find(COLLECTOR, "vimeo")
        with pytest.raises(InvalidRequestError, match="there is no other"):
            registry.find(EXECUTOR, "blog")

    assert caught.value.reason == Reason.TYPE_UNKNOWN


async def test_settings_name_types_with_their_replicas(broker_bus: Bus) -> None:
    async with (
        serving(collector(Stranger())) as one,
        serving(collector(Stranger())) as two,
        serving(executor(Stranger(types=("palavras",)))) as third,
        registry_on(
            broker_bus,
            collectors=f"blog={one}, {two}; feed=queue",
            executors=f"palavras={third}",
            task_max_in_flight=9,
            task_seconds=77,
        ) as registry,
    ):
        listed = {one.type: one for one in await registry.listed(task_pb2.TASK_ROLE_UNSPECIFIED)}
        await until(lambda: bool(registry.find(COLLECTOR, "blog").description.summary))

    assert list(listed) == ["blog", "feed", "palavras"]
    assert listed["blog"].addresses == [one, two]
    assert (listed["blog"].max_in_flight, listed["blog"].timeout.seconds) == (9, 77)
    assert listed["feed"].transport == QUEUE
    assert not listed["blog"].removable


@pytest.mark.parametrize(
    "text", ["blog", "blog=", "=host:1", "a b=host:1", "blog=host", "blog=queue;blog=host:1"]
)
@pytest.mark.parametrize("name", ["collectors", "executors"])
def test_settings_that_cannot_be_read_are_refused_by_their_name(name: str, text: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"^ORCHESTRATOR_{name.upper()}: "):
        Settings(**{name: text}).check()  # type: ignore[arg-type] # one of two texts


async def test_an_orchestrator_with_a_built_in_type_in_its_settings_says_so_in_one_line(
    start: Start,
) -> None:
    with pytest.raises(InvalidRequestError, match="the collector youtube is built in"):
        async with start(collectors="youtube=queue"):
            pass


async def test_built_in_types_and_those_of_the_settings_cannot_be_replaced(
    broker_bus: Bus,
) -> None:
    own = Registered("url", COLLECTOR, GRPC, 1, 1, task_pb2.TypeDescription())
    async with registry_on(broker_bus, own, collectors="feed=queue") as registry:
        for name in ("url", "feed"):
            error = await refused(registry.register(request(name)))
            assert error.reason == Reason.REQUEST_INVALID
            error = await refused(registry.unregister(COLLECTOR, name))
            assert error.reason == Reason.REQUEST_INVALID
        assert names(registry) == ["feed", "url"]
    with pytest.raises(InvalidRequestError, match="built in"):
        async with registry_on(broker_bus, own, collectors="url=queue"):
            pass


async def test_the_mesh_has_at_most_so_many_types(
    broker_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_module, "MAX_TYPES", 2)
    async with registry_on(broker_bus) as registry:
        await registry.register(request("a"))
        await registry.register(request("b", role=EXECUTOR))
        error = await refused(registry.register(request("c")))
        await registry.register(request("a", max_in_flight=2))  # replaces, adds none

    assert error.reason == Reason.REQUEST_INVALID


async def test_a_service_that_dies_is_shown_as_away_and_comes_back(broker_bus: Bus) -> None:
    port, script = free_ports(1)[0], Stranger()

    async def healthy(registry: Registry) -> bool:
        return (await registry.listed(COLLECTOR))[0].healthy

    def gauge() -> float | None:
        labels = {"role": "collector", "type": "blog"}
        return REGISTRY.get_sample_value("ytcaption_type_healthy", labels)

    async with registry_on(broker_bus) as registry:
        async with serving(collector(script), port=port) as address:
            await registry.register(request("blog", address))
            await until(lambda: gauge() == 1)

        await until(lambda: gauge() == 0)
        assert not await healthy(registry)
        script.schema = {"type": "object"}
        async with serving(collector(script), port=port):
            await until(lambda: gauge() == 1)
            assert await healthy(registry)
            await until(
                lambda: len(registry.find(COLLECTOR, "blog").description.parameters_schema) == 1
            )
        await registry.unregister(COLLECTOR, "blog")
        assert gauge() is None


async def test_a_call_under_way_fails_as_passing_if_its_type_moves(broker_bus: Bus) -> None:
    script = Stranger(answers=[recording("http://a.test/1"), asyncio.Event()])
    async with (
        serving(collector(script)) as one,
        serving(collector(Stranger())) as two,
        registry_on(broker_bus) as registry,
    ):
        await registry.register(request("blog", one))
        engine = registry.find(COLLECTOR, "blog").collector
        assert engine is not None
        found = engine.collect(collector_pb.CollectRequest(type="blog"))
        await anext(found)
        await registry.register(request("blog", two))

        with pytest.raises(UnavailableError) as caught:
            await anext(found)
        async with asyncio.timeout(60):
            await script.cancelled.wait()
    assert caught.value.retryable


async def test_admins_register_and_readers_list(client: Client) -> None:
    async with serving(collector(Stranger())) as address:
        made = await client.admin.RegisterType(request("blog", address))
        listed = await client.admin.ListTypes(pb.ListTypesRequest(role=COLLECTOR))
        assert "blog" in [one.type for one in listed.types]
        assert "endereco" in str(made.type.description.parameters_schema)
        gone = pb.UnregisterTypeRequest(type="blog", role=COLLECTOR)
        assert (await client.admin.UnregisterType(gone)).removed
        assert not (await client.admin.UnregisterType(gone)).removed
        assert (
            await refusal(client.admin.RegisterType(request("no blanks"))) == Reason.REQUEST_INVALID
        )
        with pytest.raises(grpc.aio.AioRpcError):
            await client.admin.UnregisterType(pb.UnregisterTypeRequest(type="blog"))


async def test_a_factory_reset_leaves_registrations(client: Client) -> None:
    await client.admin.RegisterType(request("feed"))
    await client.admin.FactoryReset(pb.FactoryResetRequest(confirmation="ERASE EVERYTHING"))
    listed = await client.admin.ListTypes(pb.ListTypesRequest(role=COLLECTOR))

    assert "feed" in [one.type for one in listed.types]
