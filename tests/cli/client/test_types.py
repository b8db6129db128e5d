"""types against the fake orchestrator on a real socket."""

import json

import pytest

from tests.support.command import run
from tests.support.fake_orchestrator import FakeAdmin, serving
from ytcaption.v1 import task_pb2


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin()


async def test_a_service_is_registered_with_its_replicas_and_listed(admin: FakeAdmin) -> None:
    async with serving(admin=admin) as address:
        made = await run(
            *("types", "add", "collector", "blog"),
            *("--address", "127.0.0.1:7001", "--address", "[::1]:7002"),
            *("--max-in-flight", "3", "--timeout", "2m", "--server", address),
        )
        listed = await run("types", "--server", address)
        plain = await run("types", "--json", "--server", address)

    assert (made.code, listed.code) == (0, 0)
    assert "127.0.0.1:7001, [::1]:7002" in made.out
    assert "collector" in listed.out
    found = json.loads(plain.out)
    assert found["type"] == "blog"
    assert found["addresses"] == ["127.0.0.1:7001", "[::1]:7002"]
    assert (found["max_in_flight"], found["timeout"]) == (3, "120s")


async def test_a_queue_has_no_address_and_one_of_both_is_needed(admin: FakeAdmin) -> None:
    add = ("types", "add", "executor", "palavras")
    async with serving(admin=admin) as address:
        queued = await run(*add, "--queue", "--json", "--server", address)
        neither = await run(*add, "--server", address)
        both = await run(*add, "--queue", "--address", "a:1", "--server", address)

    assert json.loads(queued.out)["transport"] == "TASK_TRANSPORT_QUEUE"
    assert [*admin.types] == [(task_pb2.TASK_ROLE_EXECUTOR, "palavras")]
    assert (neither.code, both.code) == (2, 2)
    assert "--address" in neither.err


async def test_a_registration_is_taken_back_once(admin: FakeAdmin) -> None:
    remove = ("types", "remove", "collector", "blog", "--server")
    async with serving(admin=admin) as address:
        await run("types", "add", "collector", "blog", "--queue", "--server", address)
        first = await run(*remove, address)
        second = await run(*remove, address)

    assert (first.code, first.err) == (0, "")
    assert second.code == 3
    assert "no collector blog" in second.err
