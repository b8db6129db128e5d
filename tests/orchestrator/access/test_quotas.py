"""With a login every owner has limits of its own, which only admins change."""

from typing import Any

import pytest

from mesh.reasons import Reason
from orchestrator.quotas.quotas import name_of
from tests.orchestrator.access.conftest import token_for
from tests.orchestrator.conftest import Start
from tests.support.client import URL, Client, refusal
from tests.support.polling import until
from tests.support.scripted import Script
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import job_pb2, quota_pb2, token_pb2
from ytcaption.v1 import pipeline_service_pb2 as pb
from ytcaption.v1 import quota_service_pb2 as quota_api

QUEUED, AUDIO = quota_pb2.QUOTA_LIMIT_QUEUED_JOBS, quota_pb2.QUOTA_LIMIT_AUDIO_HOURS


def setting(
    owner: str, maximum: float, limit: "quota_pb2.QuotaLimit.ValueType" = QUEUED
) -> quota_api.SetQuotaRequest:
    override = quota_pb2.QuotaOverride(limit=limit, maximum=maximum)
    return quota_api.SetQuotaRequest(owner=owner, overrides=[override])


async def overridden(client: Client, owner: str | None = None) -> dict[str, float]:
    found = await client.quotas.GetQuota(quota_api.GetQuotaRequest(owner=owner))
    return {name_of(one.limit): one.maximum for one in found.quotas if one.overridden}


async def test_a_limit_holds_for_its_owner_alone(
    stranger: Client, admin: Client, script: Script
) -> None:
    ana, bia = [
        stranger.with_token((await token_for(admin, name)).secret) for name in ("ana", "bia")
    ]
    await admin.quotas.SetQuota(setting("ana", 1))
    script.pause_download_at = 0
    for n in range(2):  # both slots are taken
        await bia.create(f"{URL}?busy={n}")
    await script.until_paused()
    await ana.create()

    refused = await refusal(ana.create())
    await bia.create()
    await bia.create()
    script.go_on.set()

    assert refused == Reason.QUOTA_EXCEEDED
    assert await overridden(ana) == {"queued_jobs": 1}
    assert await overridden(bia) == {}


async def test_only_admins_read_and_set_limits_of_others(stranger: Client, admin: Client) -> None:
    ana = stranger.with_token((await token_for(admin, "ana")).secret)
    operator = stranger.with_token((await token_for(admin, "op", token_pb2.ROLE_OPERATOR)).secret)
    await admin.quotas.SetQuota(setting("ana", 2.5, AUDIO))
    for one in (ana, operator):
        assert await refusal(overridden(one, "bia")) == Reason.ROLE_REQUIRED
        assert await refusal(one.quotas.SetQuota(setting("ana", 0))) == Reason.ROLE_REQUIRED

    assert await overridden(ana) == await overridden(ana, "ana") == {"audio_hours": 2.5}
    assert await overridden(admin, "ana") == {"audio_hours": 2.5}
    assert await overridden(admin) == {}
    expected = {
        ("admin", "ana", ""),
        ("ana", "", Reason.ROLE_REQUIRED),
        ("op", "", Reason.ROLE_REQUIRED),
    }

    async def audited() -> bool:
        entries = (await admin.admin.ListAudit(admin_pb.ListAuditRequest())).entries
        return expected == {
            (one.subject, *(one.object_ids or [""]), one.reason)
            for one in entries
            if one.method == "QuotaService/SetQuota"
        }

    await until(audited)


BAD = {
    "nothing": quota_api.SetQuotaRequest(owner="ana"),
    "an unknown limit": setting("ana", 1, 99),  # type: ignore[arg-type]
    "no limit": setting("ana", 1, quota_pb2.QUOTA_LIMIT_UNSPECIFIED),
    "a negative number": setting("ana", -1),
    "no number": setting("ana", float("nan"), AUDIO),
    "infinity": setting("ana", float("inf"), AUDIO),
    "half a job": setting("ana", 0.5),
    "a limit twice": quota_api.SetQuotaRequest(
        overrides=[quota_pb2.QuotaOverride(limit=QUEUED)], defaults=[QUEUED]
    ),
    "an unprintable owner": setting("a\nb", 1),
}


@pytest.mark.parametrize("request_", BAD.values(), ids=BAD.keys())
async def test_limits_that_make_no_sense_are_refused(
    admin: Client, request_: quota_api.SetQuotaRequest
) -> None:
    assert await refusal(admin.quotas.SetQuota(request_)) == Reason.REQUEST_INVALID


async def test_high_priority_needs_the_role_of_an_operator(
    stranger: Client, admin: Client, script: Script
) -> None:
    ana = stranger.with_token((await token_for(admin, "ana")).secret)
    hers = stranger.with_token((await token_for(admin, "ana", token_pb2.ROLE_OPERATOR)).secret)
    high: dict[str, Any] = {"priority": job_pb2.PRIORITY_HIGH}
    batch = collection_pb.CreateCollectionRequest(addresses=[URL], **high)

    assert await refusal(ana.create(**high)) == Reason.ROLE_REQUIRED
    assert await refusal(ana.upload(b"x", **high)) == Reason.ROLE_REQUIRED
    assert await refusal(ana.collections.CreateCollection(batch)) == Reason.ROLE_REQUIRED
    urgent = await hers.finished((await hers.create(**high)).job_id)
    again = pb.RepeatJobRequest(job_id=urgent.job_id)
    repeats = [(await one.pipeline.RepeatJob(again)).job.priority for one in (ana, hers)]
    assert urgent.priority == job_pb2.PRIORITY_HIGH
    assert repeats == [job_pb2.PRIORITY_NORMAL, job_pb2.PRIORITY_HIGH]


async def test_owners_take_turns_whatever_callers_they_name(
    start: Start, script: Script, first_token: str, tmp_path: object
) -> None:
    file = f"{tmp_path}/first.token"
    async with start(login=True, token_file=file, concurrency=1) as stranger:
        admin = stranger.with_token(first_token)
        ana, bia = [
            stranger.with_token((await token_for(admin, name)).secret) for name in ("ana", "bia")
        ]
        script.seconds, script.pause_download_at = 1, 0
        await admin.create("http://example.test/first")
        await script.until_paused()
        jobs = [
            (await ana.create(f"http://ana.test/{n}", caller=f"caller {n}")).job_id
            for n in range(12)
        ]
        jobs += [(await bia.create(f"http://bia.test/{n}")).job_id for n in range(3)]
        script.pause_download_at = None
        script.go_on.set()
        for job_id in jobs:
            assert (await admin.finished(job_id)).state == job_pb2.JOB_STATE_SUCCEEDED

    order = [address.split("/")[2] for address in script.downloads[1:8]]
    assert order.count("bia.test") == 3
