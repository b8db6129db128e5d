"""The audit: who changed what, from where, with which outcome; and who was refused."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.descriptor_pb2 import MethodOptions

from mesh.bus import Bus
from mesh.identity import METHODS, Role
from mesh.reasons import Reason
from mesh.stores import AUDIT_SECONDS
from orchestrator.access import audit as audit_module
from tests.orchestrator.access.conftest import token_for
from tests.orchestrator.conftest import connected
from tests.support.broker import Broker
from tests.support.client import Client, refusal
from tests.support.polling import until
from tests.support.scripted import Script
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import auth_service_pb2 as auth_pb
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import pipeline_service_pb2 as pipeline_pb
from ytcaption.v1 import token_pb2
from ytcaption.v1.audit_pb2 import AuditEntry


def test_the_calls_that_only_read_are_those_the_contract_says() -> None:
    reads = {
        f"{service.name}/{method.name}"
        for contract in (pb, auth_pb, collection_pb, pipeline_pb)
        for service in contract.DESCRIPTOR.services_by_name.values()
        for method in service.methods
        if method.GetOptions().idempotency_level == MethodOptions.NO_SIDE_EFFECTS
    }
    small = {name for name, role in METHODS.items() if role < Role.SUBMITTER}

    assert reads - small == audit_module.READS


async def entries(
    admin: Client, enough: Callable[[list[AuditEntry]], bool], **which: object
) -> list[AuditEntry]:
    """The audit, oldest first, once there is enough of it."""
    found: list[AuditEntry] = []

    async def is_enough() -> bool:
        request = pb.ListAuditRequest(**which)  # type: ignore[arg-type] # as the test says
        found[:] = reversed((await admin.admin.ListAudit(request)).entries)
        return enough(found)

    await until(is_enough)
    return found


async def test_changes_and_refusals_are_recorded_and_reads_are_not(
    stranger: Client, admin: Client
) -> None:
    made = await token_for(admin, "ana")
    ana = stranger.with_token(made.secret)
    job = await ana.create()
    await ana.job(job.job_id)
    await ana.pipeline.ListJobs(pipeline_pb.ListJobsRequest())
    missing = "00000000-0000-7000-8000-000000000000"
    assert await refusal(ana.delete(missing)) == Reason.JOB_NOT_FOUND
    assert await refusal(ana.admin.GetStats(pb.GetStatsRequest())) == Reason.ROLE_REQUIRED
    assert await refusal(stranger.create()) == Reason.TOKEN_REQUIRED
    await ana.delete(job.job_id)

    found = await entries(admin, lambda seen: len(seen) == 6)

    assert [(one.subject, one.method, list(one.object_ids), one.reason) for one in found] == [
        ("admin", "AuthService/CreateToken", [made.token.token_id], ""),
        ("ana", "PipelineService/CreateJob", [job.job_id], ""),
        ("ana", "PipelineService/DeleteJob", [missing], "JOB_NOT_FOUND"),
        ("ana", "AdminService/GetStats", [], "ROLE_REQUIRED"),
        ("", "PipelineService/CreateJob", [], "TOKEN_REQUIRED"),
        ("ana", "PipelineService/DeleteJob", [job.job_id], ""),
    ]
    assert {one.token_id for one in found if one.subject == "ana"} == {made.token.token_id}
    assert all(one.peer.startswith("ipv4:127.0.0.1:") for one in found)
    assert all(len(one.correlation_id) == 36 for one in found)
    assert len({one.sequence for one in found}) == 6
    (own, *_) = await entries(admin, lambda seen: len(seen) == 4, subject="ana")
    assert own.subject == "ana"


async def test_what_a_call_is_about_is_named(
    stranger: Client, admin: Client, script: Script
) -> None:
    request = collection_pb.CreateCollectionRequest(addresses=["http://example.test/1"])
    made = (await admin.collections.CreateCollection(request)).collection
    cancel = collection_pb.CancelCollectionRequest(collection_id=made.collection_id)
    await admin.collections.CancelCollection(cancel)
    letter = "00000000-0000-7000-8000-000000000000"
    replay = admin.admin.ReplayDeadLetter(pb.ReplayDeadLetterRequest(job_id=letter))
    assert await refusal(replay) == Reason.DEAD_LETTER_NOT_FOUND
    await admin.auth.CreateSession(auth_pb.CreateSessionRequest())

    found = await entries(admin, lambda seen: len(seen) == 4)

    about = [list(one.object_ids) for one in found]
    assert about[:3] == [[made.collection_id], [made.collection_id], [letter]]
    assert len(about[3]) == 1


async def test_the_audit_is_paged_and_chosen_by_time(stranger: Client, admin: Client) -> None:
    for name in ("ana", "bia", "eva"):
        await token_for(admin, name)
    await entries(admin, lambda seen: len(seen) == 3)

    page = await admin.admin.ListAudit(pb.ListAuditRequest(page_size=2))
    token = page.next_page_token
    rest = await admin.admin.ListAudit(pb.ListAuditRequest(page_token=token))
    soon = pb.ListAuditRequest()
    soon.start_time.FromDatetime(datetime.now(UTC) + timedelta(hours=1))
    past = pb.ListAuditRequest()
    past.end_time.FromDatetime(datetime.now(UTC) + timedelta(hours=1))

    sequences = [one.sequence for one in (*page.entries, *rest.entries)]
    assert len(sequences) == 3
    assert sequences == sorted(sequences, reverse=True)
    assert len((await admin.admin.ListAudit(soon)).entries) == 0
    assert len((await admin.admin.ListAudit(past)).entries) == 3


async def test_a_factory_reset_leaves_the_audit_and_is_in_it(
    stranger: Client, admin: Client, broker_bus: Bus
) -> None:
    await token_for(admin, "ana")
    await admin.admin.FactoryReset(pb.FactoryResetRequest(confirmation="ERASE EVERYTHING"))

    found = await entries(admin, lambda seen: len(seen) == 2)

    assert [one.method for one in found] == [
        "AuthService/CreateToken",
        "AdminService/FactoryReset",
    ]


async def test_strangers_cannot_displace_entries(
    stranger: Client, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "STRANGERS_BURST", 3)
    monkeypatch.setattr(audit_module, "STRANGERS_PER_SECOND", 0)
    for _ in range(9):
        assert await refusal(stranger.create()) == Reason.TOKEN_REQUIRED
    await token_for(admin, "ana")

    found = await entries(admin, lambda seen: any(one.subject for one in seen))

    assert [one.subject for one in found] == ["", "", "", "admin"]


async def test_only_admins_read_it_and_without_a_login_it_is_empty(
    stranger: Client, admin: Client
) -> None:
    operator = stranger.with_token((await token_for(admin, "op", token_pb2.ROLE_OPERATOR)).secret)

    refused = operator.admin.ListAudit(pb.ListAuditRequest())

    assert await refusal(refused) == Reason.ROLE_REQUIRED


async def test_without_a_login_nothing_is_recorded(client: Client) -> None:
    await client.create()

    assert not (await client.admin.ListAudit(pb.ListAuditRequest())).entries


async def test_entries_end_after_a_year_also_in_an_audit_that_was_made_before(
    broker: Broker, broker_bus: Bus
) -> None:
    stream = broker_bus.names.audit_stream
    made = (await broker_bus.jetstream.stream_info(stream)).config
    await broker_bus.jetstream.update_stream(made.evolve(max_age=0))

    async with connected(broker):
        now = (await broker_bus.jetstream.stream_info(stream)).config

    assert made.max_age == now.max_age == AUDIT_SECONDS
    assert now.deny_delete
