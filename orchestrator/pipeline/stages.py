"""The three stages as the orchestrator calls them, and what their failures mean to a job."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

import grpc

from mesh.channel import open_channel
from mesh.correlation import call_metadata
from mesh.errors import MeshError, TimedOutError
from mesh.languages import tag_of
from orchestrator.circuit import Circuit
from orchestrator.settings import Settings
from ytcaption.v1 import downloader_service_pb2_grpc as downloader_rpc
from ytcaption.v1 import job_pb2
from ytcaption.v1 import normalizer_service_pb2_grpc as normalizer_rpc
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb
from ytcaption.v1 import transcriber_service_pb2_grpc as transcriber_rpc

StageId: TypeAlias = "job_pb2.Stage.ValueType"
StateId: TypeAlias = "job_pb2.JobState.ValueType"

DOWNLOADER = "ytcaption.v1.DownloaderService"
NORMALIZER = "ytcaption.v1.NormalizerService"
TRANSCRIBER = "ytcaption.v1.TranscriberService"

STAGE_IDS: dict[str, StageId] = {
    "downloader": job_pb2.STAGE_DOWNLOAD,
    "normalizer": job_pb2.STAGE_NORMALIZATION,
    "transcriber": job_pb2.STAGE_TRANSCRIPTION,
}


class StageError(Exception):
    """A stage gave up, or the attempt as a whole did."""

    def __init__(self, stage: StageId, error: MeshError) -> None:
        super().__init__(str(error))
        self.stage = stage
        self.error = error

    @property
    def timed_out(self) -> bool:
        """Whether it ran out of time rather than into an error."""
        return isinstance(self.error, TimedOutError)


@dataclass(frozen=True, slots=True)
class Stages:
    """Open channels to the three stages."""

    downloader: downloader_rpc.DownloaderServiceStub
    normalizer: normalizer_rpc.NormalizerServiceStub
    transcriber: transcriber_rpc.TranscriberServiceStub
    channels: dict[str, tuple[str, grpc.aio.Channel]]
    """By short name: the full service name and its channel, for health checks."""
    circuits: dict[StageId, Circuit]


@asynccontextmanager
async def open_stages(settings: Settings) -> AsyncIterator[Stages]:
    """Connects lazily: a stage that is down is found out when it is called."""
    async with AsyncExitStack() as open_channels:
        channels = {
            name: (service, await open_channels.enter_async_context(open_channel(address, service)))
            for name, service, address in (
                ("downloader", DOWNLOADER, settings.downloader),
                ("normalizer", NORMALIZER, settings.normalizer),
                ("transcriber", TRANSCRIBER, settings.transcriber),
            )
        }
        yield Stages(
            downloader=downloader_rpc.DownloaderServiceStub(channels["downloader"][1]),
            normalizer=normalizer_rpc.NormalizerServiceStub(channels["normalizer"][1]),
            transcriber=transcriber_rpc.TranscriberServiceStub(channels["transcriber"][1]),
            channels=channels,
            circuits={
                stage: Circuit(
                    name, failures=settings.circuit_failures, seconds=settings.circuit_seconds
                )
                for name, stage in STAGE_IDS.items()
            },
        )


@dataclass(frozen=True, slots=True)
class Selected:
    """The models that make the text of a job."""

    speech: str
    translation: str
    """Empty if none is needed, or the speech model does it itself."""


async def selected_models(stages: Stages, language_out: str) -> Selected:
    """The models a job would get now."""
    listed = await stages.transcriber.ListModels(
        transcriber_pb.ListModelsRequest(), timeout=5, metadata=call_metadata()
    )
    speech = next((model.name for model in listed.models if model.selected), "")
    target = tag_of(language_out)
    able = (one.model for one in listed.translations if target in one.target_languages)
    translation = next(able, speech)
    return Selected(speech, "" if translation == speech else translation)


def stage_stall_seconds(settings: Settings) -> dict[StageId, float]:
    """How long each stage may stand still, where the operator says so."""
    wanted = {
        STAGE_IDS["downloader"]: settings.download_stall_seconds,
        STAGE_IDS["normalizer"]: settings.normalization_stall_seconds,
        STAGE_IDS["transcriber"]: settings.transcription_stall_seconds,
    }
    return {stage: seconds for stage, seconds in wanted.items() if seconds}
