"""Makes what an owner has, and asks about it."""

from collections.abc import Sequence

import grpc
from google.protobuf.message import Message

from mesh.errors import SourceRefusedError
from mesh.frames import truthful
from mesh.reasons import Reason
from mesh.status import reason_of
from tests.orchestrator.access.conftest import token_for
from tests.orchestrator.access.table import ANSWERED, REPORT, RPCS, Things
from tests.support.client import URL, Client
from tests.support.polling import until
from tests.support.scripted import Script
from ytcaption.v1 import admin_service_pb2 as admin_pb
from ytcaption.v1 import collection_service_pb2 as collection_pb
from ytcaption.v1 import task_pb2

SECONDS = 60


async def things_of(owner: str, client: Client, admin: Client, script: Script, hook: str) -> Things:
    job = await client.finished((await client.create(webhook_url=hook)).job_id)
    gone = SourceRefusedError("gone", reason=Reason.VIDEO_REMOVED)
    script.failures = [gone, gone]
    dead, letter = [await client.finished((await client.create()).job_id) for _ in range(2)]
    request = collection_pb.CreateCollectionRequest(
        addresses=[URL], force=True, executors=[task_pb2.ExecutorSpec(kind=REPORT)]
    )
    made = (await client.collections.CreateCollection(request)).collection
    watch = collection_pb.WatchCollectionRequest(collection_id=made.collection_id)
    async for _ in client.collections.WatchCollection(watch):
        pass

    async def is_logged() -> bool:
        listed = await client.admin.ListWebhookDeliveries(admin_pb.ListWebhookDeliveriesRequest())
        return any(one.job_id == job.job_id for one in listed.deliveries)

    async def are_dead() -> bool:
        listed = await client.admin.ListDeadLetters(admin_pb.ListDeadLettersRequest())
        return {dead.job_id, letter.job_id} <= {one.job_id for one in listed.dead_letters}

    async def is_found() -> bool:
        found = await client.search("word")
        return found.indexed >= 2 and not found.behind

    await until(is_logged)
    await until(are_dead)
    await until(is_found)
    spare = (await token_for(admin, owner)).token.token_id
    return Things(owner, job.job_id, dead.job_id, letter.job_id, made.collection_id, spare)


async def ask(client: Client, name: str, request: Message | Sequence[Message]) -> tuple[str, bytes]:
    """The answer as a cell says it, and its bytes: of a list or a watch of one the first part."""
    method = RPCS[name]
    kind = "_".join(
        "stream" if streaming else "unary"
        for streaming in (method.client_streaming, method.server_streaming)
    )
    call = getattr(client.channel, kind)(
        f"/ytcaption.v1.{name}",
        request_serializer=method.input_type._concrete_class.SerializeToString,
        response_deserializer=lambda data: data,
    )(iter(request) if isinstance(request, Sequence) else request, timeout=SECONDS)
    if method.client_streaming:
        truthful(call)
    try:
        if not method.server_streaming:
            return ANSWERED, await call
        answer = b""
        async for part in call:
            answer += part
            if name.endswith(("WatchJobs", "WatchCollections", "TranscribeStream")):
                break
    except grpc.aio.AioRpcError as error:
        return f"{error.code().name} {reason_of(error)}", b""
    finally:
        call.cancel()
    return ANSWERED, answer
