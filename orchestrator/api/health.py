"""How the orchestrator, the broker and every stage are, in words."""

import asyncio

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from mesh.bearer import metadata_of
from mesh.bus import Bus, without_login
from mesh.channel import open_direct_channel
from mesh.correlation import call_metadata
from mesh.identity import current
from mesh.preparation import in_words
from mesh.tls import Tls
from orchestrator.pipeline.stages import STAGES, TRANSCRIBER, Stage, Stages
from orchestrator.settings import Settings
from ytcaption.v1 import admin_service_pb2 as pb
from ytcaption.v1 import media_pb2
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb
from ytcaption.v1 import transcriber_service_pb2_grpc as transcriber_rpc

ASK_SECONDS = 3.0


async def look(settings: Settings, bus: Bus, stages: Stages) -> list[pb.ComponentHealth]:
    """Asks everyone at once."""
    own = _component("orchestrator", True, "serving", settings.listen)
    asked = [_look_at_stage(stages, stage, settings) for stage in STAGES]
    found = [own, *await asyncio.gather(_ask_broker(settings, bus), *asked)]
    return found if current().role else [_for_strangers(part) for part in found]


def _for_strangers(part: pb.ComponentHealth) -> pb.ComponentHealth:
    """Whether it works, and nothing about the network or the versions behind the login."""
    detail = "serving" if part.healthy else "not serving"
    return pb.ComponentHealth(name=part.name, healthy=part.healthy, detail=detail)


async def _look_at_stage(stages: Stages, stage: Stage, settings: Settings) -> pb.ComponentHealth:
    address = stage.addresses(settings)
    found = await _ask_stage(stage, address, stages.channels[stage.id])
    if (
        stage is TRANSCRIBER
        and not found.healthy
        and (preparing := await _preparing(address, settings.tls, stages.token))
    ):
        found.detail = in_words(preparing)
        found.preparing.CopyFrom(preparing)
    elif stages.circuits[stage.id].open:
        found.detail += ", but left our last calls without an answer"
    return found


async def _ask_broker(settings: Settings, bus: Bus) -> pb.ComponentHealth:
    address = without_login(settings.nats_url)
    try:
        async with asyncio.timeout(ASK_SECONDS):
            await bus.jetstream.account_info()
    except Exception as error:  # noqa: BLE001 # whatever it is, it is the answer
        return _component("nats", False, str(error) or type(error).__name__, address)
    found = bus.client.connected_server_version
    version = f"{found.major}.{found.minor}.{found.patch}"
    return _component("nats", True, f"nats-server {version}", address)


async def _ask_stage(stage: Stage, address: str, channel: grpc.aio.Channel) -> pb.ComponentHealth:
    try:
        answer = await HealthStub(channel).Check(  # type: ignore[attr-defined] # stubs lack it
            HealthCheckRequest(service=stage.service), timeout=ASK_SECONDS
        )
    except grpc.aio.AioRpcError as error:
        return _component(stage.name, False, error.details() or error.code().name, address)
    word = HealthCheckResponse.ServingStatus.Name(answer.status)
    serving = answer.status == HealthCheckResponse.SERVING
    return _component(stage.name, serving, word.lower(), address)


async def _preparing(addresses: str, tls: Tls, token: str) -> media_pb2.ModelPreparation | None:
    """What the first replica that is on its way still needs."""
    asked = (_ask_model(address, tls, token) for address in addresses.split(","))
    found = await asyncio.gather(*asked)
    return next((preparing for preparing in found if preparing is not None), None)


async def _ask_model(address: str, tls: Tls, token: str) -> media_pb2.ModelPreparation | None:
    """Asks directly: a balanced call would not reach who does not serve yet."""
    request = transcriber_pb.GetModelStateRequest()
    async with open_direct_channel(address, tls) as channel:
        try:
            state = await transcriber_rpc.TranscriberServiceStub(channel).GetModelState(
                request,
                timeout=ASK_SECONDS,
                metadata=(*metadata_of(token), *call_metadata()),
            )
        except grpc.aio.AioRpcError:
            return None
    return state.preparing if state.HasField("preparing") else None


def _component(name: str, healthy: bool, detail: str, address: str) -> pb.ComponentHealth:
    return pb.ComponentHealth(name=name, healthy=healthy, detail=detail, address=address)
