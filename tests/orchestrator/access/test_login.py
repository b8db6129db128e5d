"""Where login is on, a call needs a token that is valid, and a role that may make it."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration import from_timedelta
from google.protobuf.message import Message
from grpc_health.v1.health_pb2 import HealthCheckRequest
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from mesh.bus import Bus
from mesh.errors import UnavailableError
from mesh.frames import truthful
from mesh.identity import METHODS, Role
from mesh.reasons import Reason
from mesh.server import running_server
from mesh.status import reason_of
from mesh.tokens import digest_of, new_token, read_token
from orchestrator.access import login as login_module
from orchestrator.access.tokens import TokenStore
from tests.orchestrator.access.conftest import token_for
from tests.orchestrator.conftest import Start
from tests.support.client import URL, Client, refusal
from tests.support.polling import until
from tests.support.scripted import Script
from ytcaption.v1 import (
    admin_service_pb2,
    auth_service_pb2,
    collection_service_pb2,
    job_pb2,
    pipeline_service_pb2,
    quota_service_pb2,
    search_service_pb2,
    token_pb2,
)
from ytcaption.v1 import auth_service_pb2 as pb
from ytcaption.v1 import pipeline_service_pb2 as pipeline_pb

PUBLIC = (
    pipeline_service_pb2,
    collection_service_pb2,
    admin_service_pb2,
    auth_service_pb2,
    quota_service_pb2,
    search_service_pb2,
)
RPCS = {
    f"{service.name}/{method.name}": method
    for contract in PUBLIC
    for service in contract.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
LIST = pipeline_pb.ListJobsRequest()


def test_every_rpc_of_the_public_services_is_in_the_table() -> None:
    assert METHODS.keys() == RPCS.keys()


def test_the_roles_are_those_of_the_contract() -> None:
    assert {f"ROLE_{role.name}": role.value for role in Role if role} == {
        name: number for name, number in token_pb2.Role.items() if number
    }


async def answer_to(client: Client, name: str) -> str:
    """The reason of a refusal, or "" for any answer that a call with an empty request gets."""
    method: Any = RPCS[name]
    kind = "_".join(
        "stream" if streaming else "unary"
        for streaming in (method.client_streaming, method.server_streaming)
    )
    request: Message = method.input_type._concrete_class()
    call = getattr(client.channel, kind)(
        f"/ytcaption.v1.{name}",
        request_serializer=method.input_type._concrete_class.SerializeToString,
        response_deserializer=method.output_type._concrete_class.FromString,
    )(iter([request]) if method.client_streaming else request)
    if method.client_streaming:
        truthful(call)
    try:
        if method.server_streaming:
            async for _ in call:
                break
        else:
            await call
    except grpc.aio.AioRpcError as error:
        return reason_of(error)
    finally:
        call.cancel()
    return ""


ACCESS_REASONS = {Reason.TOKEN_REQUIRED, Reason.TOKEN_INVALID, Reason.ROLE_REQUIRED}


@pytest.mark.parametrize("role", list(Role))
async def test_each_role_may_call_exactly_what_the_table_says(
    stranger: Client, admin: Client, role: Role
) -> None:
    client = stranger
    if role:
        made = await token_for(admin, "someone", token_pb2.Role.Value(f"ROLE_{role.name}"))
        client = stranger.with_token(made.secret)
    for name, required in METHODS.items():
        said = await answer_to(client, name)
        if role >= required:
            # An empty code is no link: the one method that checks a credential of its own.
            assert said not in ACCESS_REASONS or name == "AuthService/OpenLink", name
        else:
            assert said == (Reason.ROLE_REQUIRED if role else Reason.TOKEN_REQUIRED), name


async def test_health_needs_no_token(stranger: Client) -> None:
    stub: Any = HealthStub(stranger.channel)

    assert (await stub.Check(HealthCheckRequest())).status


async def test_strangers_learn_whether_it_works_and_not_where(
    stranger: Client, admin: Client
) -> None:
    request = admin_service_pb2.GetHealthRequest()
    told = await stranger.with_token("junk").admin.GetHealth(request)
    known = await admin.admin.GetHealth(request)

    assert told.healthy == known.healthy
    assert {one.detail for one in told.components} == {"serving"}
    assert {one.address for one in told.components} == {""}
    assert all(one.address for one in known.components)


@pytest.mark.parametrize("reflects", [True, False])
async def test_reflection_is_a_setting(reflects: bool) -> None:
    asked = ServerReflectionRequest(list_services="")
    async with (
        running_server([], grace_seconds=0, reflects=reflects) as server,
        grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel,
    ):
        stub: Any = ServerReflectionStub(channel)  # type: ignore[arg-type] # typed for threads
        call = truthful(stub.ServerReflectionInfo(iter([asked])))
        if reflects:
            assert (await call.read()).list_services_response.service
        else:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call.read()
            assert reason_of(refused.value) == Reason.NOT_IMPLEMENTED


async def test_what_is_no_token_or_was_never_made_is_refused(
    stranger: Client, first_token: str
) -> None:
    changed = first_token[:-1] + ("0" if first_token[-1] != "0" else "1")
    for token in ("junk", new_token(), changed, f"{first_token}0", "ytc__"):
        client = stranger.with_token(token)
        assert await refusal(client.pipeline.ListJobs(LIST)) == Reason.TOKEN_INVALID, token


async def test_a_refusal_is_unauthenticated_or_permission_denied(
    stranger: Client, admin: Client
) -> None:
    reader = stranger.with_token((await token_for(admin, "reader", token_pb2.ROLE_READER)).secret)
    with pytest.raises(grpc.aio.AioRpcError) as missing:
        await stranger.pipeline.ListJobs(LIST)
    with pytest.raises(grpc.aio.AioRpcError) as small:
        await reader.create()

    assert missing.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert small.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert "submitter" in str(small.value.details())


async def test_a_token_works_until_it_is_revoked(stranger: Client, admin: Client) -> None:
    made = await token_for(admin, "ana")
    ana = stranger.with_token(made.secret)
    caller = await ana.auth.GetCaller(pb.GetCallerRequest())
    assert (caller.subject, caller.role, caller.login) == ("ana", token_pb2.ROLE_SUBMITTER, True)

    request = pb.RevokeTokenRequest(token_id=made.token.token_id)
    first = await admin.auth.RevokeToken(request)
    again = await admin.auth.RevokeToken(request)

    assert await refusal(ana.pipeline.ListJobs(LIST)) == Reason.TOKEN_INVALID
    assert first.token.revoke_time == again.token.revoke_time
    unknown = pb.RevokeTokenRequest(token_id="0" * 16)
    assert await refusal(admin.auth.RevokeToken(unknown)) == Reason.TOKEN_NOT_FOUND


async def test_revoking_a_token_ends_its_watches(
    stranger: Client, admin: Client, script: Script
) -> None:
    made = await token_for(admin, "ana")
    ana = stranger.with_token(made.secret)
    watch = ana.pipeline.WatchJobs(pipeline_pb.WatchJobsRequest())
    await watch.read()

    await admin.auth.RevokeToken(pb.RevokeTokenRequest(token_id=made.token.token_id))

    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await watch.read()
    assert reason_of(ended.value) == Reason.TOKEN_INVALID


async def test_a_token_expires(
    stranger: Client, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = pb.CreateTokenRequest(subject="ana", role=token_pb2.ROLE_READER)
    request.lifetime.CopyFrom(from_timedelta(timedelta(hours=1)))
    made = await admin.auth.CreateToken(request)
    ana = stranger.with_token(made.secret)
    await ana.pipeline.ListJobs(LIST)
    watch = ana.pipeline.WatchJobs(pipeline_pb.WatchJobsRequest())
    await watch.read()

    monkeypatch.setattr(login_module, "_expired", lambda token: token.HasField("expire_time"))

    assert await refusal(ana.pipeline.ListJobs(LIST)) == Reason.TOKEN_EXPIRED
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await watch.read()
    assert reason_of(ended.value) == Reason.TOKEN_EXPIRED


async def test_tokens_are_stored_as_digests(admin: Client, broker_bus: Bus) -> None:
    made = await token_for(admin, "ana")

    bucket = broker_bus.names.tokens_bucket
    stored = [one.data async for one in broker_bus.read(f"KV_{bucket}", ">")]

    secret = made.secret.rpartition("_")[2].encode()
    assert any(digest_of(made.secret) in data for data in stored)
    assert not any(secret in data or bytes.fromhex(secret.decode()) in data for data in stored)


async def test_lists_show_tokens_without_secrets_newest_first(admin: Client) -> None:
    made = [await token_for(admin, name) for name in ("ana", "bia", "ana")]

    page = await admin.auth.ListTokens(pb.ListTokensRequest(page_size=2))
    rest = await admin.auth.ListTokens(pb.ListTokensRequest(page_token=page.next_page_token))
    own = await admin.auth.ListTokens(pb.ListTokensRequest(subject="ana"))

    ids = [one.token.token_id for one in reversed(made)]
    assert [one.token_id for one in (*page.tokens, *rest.tokens)] == ids
    assert [one.subject for one in own.tokens] == ["ana", "ana"]
    assert await refusal(admin.auth.ListTokens(pb.ListTokensRequest(page_token="no id"))) == (  # noqa: S106 # of a list
        Reason.REQUEST_INVALID
    )


async def test_last_use_is_stored(
    start: Start, first_token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_module, "NOTE_SECONDS", 0)
    monkeypatch.setattr(login_module, "CHECK_SECONDS", 0.05)
    async with start(login=True, token_file=str(tmp_path / "first.token")) as stranger:
        admin = stranger.with_token(first_token)
        made = await token_for(admin, "ana")
        await stranger.with_token(made.secret).pipeline.ListJobs(LIST)

        async def is_noted() -> bool:
            (token,) = (await admin.auth.ListTokens(pb.ListTokensRequest())).tokens
            return token.HasField("last_use_time")

        assert not made.token.HasField("last_use_time")
        await until(is_noted)


async def test_tokens_are_known_to_every_replica_and_after_a_reset(
    start: Start, stranger: Client, admin: Client
) -> None:
    made = await token_for(admin, "ana")
    async with start(login=True) as other:
        ana = other.with_token(made.secret)
        await ana.pipeline.ListJobs(LIST)
        late = other.with_token((await token_for(admin, "bia")).secret)
        await late.pipeline.ListJobs(LIST)
        reset = admin_service_pb2.FactoryResetRequest(confirmation="ERASE EVERYTHING")
        await admin.admin.FactoryReset(reset)
        await admin.auth.RevokeToken(pb.RevokeTokenRequest(token_id=made.token.token_id))

        async def is_refused() -> bool:
            try:
                await ana.pipeline.ListJobs(LIST)
            except grpc.aio.AioRpcError as error:
                return reason_of(error) == Reason.TOKEN_INVALID
            return False

        await until(is_refused)
        await late.pipeline.ListJobs(LIST)


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": ""},
        {"subject": " "},
        {"subject": "a" * 129},
        {"subject": "a\nb"},
        {"role": 0},
        {"role": 9},
        {"note": "\x00"},
        {"lifetime": from_timedelta(timedelta(0))},
        {"lifetime": from_timedelta(timedelta(days=40_000))},
    ],
)
async def test_a_token_that_makes_no_sense_is_refused(
    admin: Client, changes: dict[str, Any]
) -> None:
    usual: dict[str, Any] = {"subject": "ana", "role": token_pb2.ROLE_READER}
    request = pb.CreateTokenRequest(**(usual | changes))

    assert await refusal(admin.auth.CreateToken(request)) == Reason.REQUEST_INVALID


async def test_a_link_opens_one_session_of_its_maker(stranger: Client, admin: Client) -> None:
    made = await token_for(admin, "ana", token_pb2.ROLE_READER)
    ana = stranger.with_token(made.secret)
    code = (await ana.auth.CreateLink(pb.CreateLinkRequest())).code

    assert await refusal(stranger.with_token(code).pipeline.ListJobs(LIST)) == Reason.TOKEN_INVALID
    opened = await stranger.auth.OpenLink(pb.OpenLinkRequest(code=code))

    browser = stranger.with_token(opened.session)
    caller = await browser.auth.GetCaller(pb.GetCallerRequest())
    assert (caller.subject, caller.role) == ("ana", token_pb2.ROLE_READER)
    assert opened.lifetime.seconds == 12 * 3600
    assert await refusal(stranger.auth.OpenLink(pb.OpenLinkRequest(code=code))) == (
        Reason.TOKEN_INVALID
    )
    assert [one.subject for one in (await admin.auth.ListTokens(pb.ListTokensRequest())).tokens]
    await admin.auth.RevokeToken(pb.RevokeTokenRequest(token_id=made.token.token_id))
    assert await refusal(browser.pipeline.ListJobs(LIST)) == Reason.TOKEN_INVALID


async def test_a_link_that_is_opened_at_once_opens_one_session(
    stranger: Client, admin: Client
) -> None:
    code = (await admin.auth.CreateLink(pb.CreateLinkRequest())).code
    request = pb.OpenLinkRequest(code=code)

    answers = await asyncio.gather(
        *(stranger.auth.OpenLink(request) for _ in range(8)), return_exceptions=True
    )

    assert sum(isinstance(one, pb.OpenLinkResponse) for one in answers) == 1


async def test_sessions_end_one_by_one_or_everywhere(stranger: Client, admin: Client) -> None:
    sessions = [
        stranger.with_token((await admin.auth.CreateSession(pb.CreateSessionRequest())).session)
        for _ in range(3)
    ]

    one = await sessions[0].auth.EndSessions(pb.EndSessionsRequest())
    assert await refusal(sessions[0].pipeline.ListJobs(LIST)) == Reason.TOKEN_INVALID
    await sessions[1].pipeline.ListJobs(LIST)
    rest = await sessions[1].auth.EndSessions(pb.EndSessionsRequest(everywhere=True))

    assert (one.sessions_ended, rest.sessions_ended) == (1, 2)
    assert await refusal(sessions[2].pipeline.ListJobs(LIST)) == Reason.TOKEN_INVALID
    await admin.pipeline.ListJobs(LIST)


async def test_nothing_is_left_of_a_session_in_the_end(broker_bus: Bus) -> None:
    store, other = TokenStore(broker_bus), TokenStore(broker_bus)
    stream = f"KV_{broker_bus.names.tokens_bucket}"
    token = token_pb2.Token(token_id="0" * 16, kind=token_pb2.TOKEN_KIND_SESSION)
    await store.add(token, b"digest")
    await other.catch_up()

    assert await store.remove(token.token_id)
    assert not await other.remove(token.token_id)
    await store.catch_up()
    await store.forget_removed(3600)
    assert (await broker_bus.state(stream)).messages == 1
    assert other.find(token.token_id) is None
    await store.forget_removed(0)

    assert (await broker_bus.state(stream)).messages == 0
    fresh = TokenStore(broker_bus)
    await fresh.catch_up()
    assert fresh.all() == []


async def test_without_login_everyone_may_do_everything(client: Client) -> None:
    caller = await client.auth.GetCaller(pb.GetCallerRequest())
    assert (caller.subject, caller.role, caller.login) == ("", token_pb2.ROLE_ADMIN, False)
    await client.with_token("junk").pipeline.ListJobs(LIST)
    assert await refusal(client.auth.CreateLink(pb.CreateLinkRequest())) == Reason.ROLE_REQUIRED


async def test_a_job_runs_with_a_token(stranger: Client, admin: Client) -> None:
    ana = stranger.with_token((await token_for(admin, "ana")).secret)

    job = await ana.finished((await ana.create(URL)).job_id)

    assert job.state == job_pb2.JOB_STATE_SUCCEEDED


def test_a_token_file_that_others_can_read_or_that_holds_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    for text, mode, said in (
        (new_token(), 0o644, "chmod 600"),
        (new_token(), 0o620, "chmod 600"),
        ("secret", 0o600, "no token"),
        ("\xff", 0o600, "no token"),
        ("", 0o600, "no token"),
    ):
        path.write_text(text, encoding="latin-1")
        path.chmod(mode)
        with pytest.raises(UnavailableError, match=said) as refused:
            read_token(str(path))
        assert "secret" not in str(refused.value)
        assert refused.value.reason == Reason.STORAGE_FORBIDDEN
    with pytest.raises(UnavailableError, match="No such file"):
        read_token(str(tmp_path / "gone"))
