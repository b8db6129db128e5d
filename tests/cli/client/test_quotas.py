"""quota against the fake orchestrator on a real socket."""

import json

import pytest

from tests.support.command import run
from tests.support.fake_orchestrator import FakeQuotas, serving
from ytcaption.v1 import quota_pb2


@pytest.fixture
def quotas() -> FakeQuotas:
    return FakeQuotas()


async def test_limits_and_what_is_used_are_a_table_or_one_json_object(quotas: FakeQuotas) -> None:
    async with serving(quotas=quotas) as address:
        plain = await run("quota", "--server", address)
        other = await run("quota", "ana", "--json", "--server", address)

    assert plain.code == 0
    rows = [line.split() for line in plain.out.splitlines()]
    assert ["queued_jobs", "2", "no", "limit"] in rows
    assert ["stored_bytes", *["1.5", "GB", "20.0", "GB", "set", "for", "this", "owner"]] in rows
    assert plain.err == "owner: me\n"
    assert json.loads(other.out) == {
        "owner": "ana",
        "quotas": [
            {"limit": "queued_jobs", "maximum": None, "used": 2, "overridden": False},
            {"limit": "stored_bytes", "maximum": 2e10, "used": 1.5e9, "overridden": True},
        ],
    }
    assert [one.HasField("owner") for one in quotas.asked] == [False, True]
    assert quotas.set == []


async def test_limits_are_set_before_they_are_shown(quotas: FakeQuotas) -> None:
    sets = ("queued_jobs=20", "stored_bytes=1.5GB", "audio_hours=none", "webhooks=default")
    async with serving(quotas=quotas) as address:
        given = [word for one in sets for word in ("--set", one)]
        await run("quota", "ana", *given, "--server", address)
        await run("quota", "--set", "audio_hours=2.5", "--server", address)

    of_ana, own = quotas.set
    assert of_ana.owner == "ana"
    assert {one.limit: one.maximum for one in of_ana.overrides} == {
        quota_pb2.QUOTA_LIMIT_QUEUED_JOBS: 20,
        quota_pb2.QUOTA_LIMIT_STORED_BYTES: 1.5e9,
        quota_pb2.QUOTA_LIMIT_AUDIO_HOURS: 0,
    }
    assert list(of_ana.defaults) == [quota_pb2.QUOTA_LIMIT_WEBHOOKS]
    assert (own.owner, own.overrides[0].maximum) == ("me", 2.5)


@pytest.mark.parametrize("bad", ["queued_jobs", "queued_jobs=", "queued_jobs=-1", "=3", "many=3"])
async def test_a_limit_that_does_not_parse_is_a_usage_error(quotas: FakeQuotas, bad: str) -> None:
    async with serving(quotas=quotas) as address:
        ended = await run("quota", "ana", "--set", bad, "--server", address)

    assert ended.code == 2
    assert quotas.set == []
