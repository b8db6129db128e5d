"""The stage table: one row for each stage service, and everything that derives from it.

Channels, stubs, circuits, readiness, health checks, purges, stall times and the stages of a job
record follow from `STAGES`. What a stage does in a run is in `pipeline`.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import grpc

from mesh.channel import open_channel
from mesh.correlation import call_metadata
from mesh.errors import MeshError, TimedOutError
from mesh.languages import tag_of
from mesh.tokens import optional_token
from orchestrator.pipeline.circuit import Circuit
from orchestrator.settings import Settings
from ytcaption.v1 import downloader_service_pb2 as downloader_pb
from ytcaption.v1 import downloader_service_pb2_grpc as downloader_rpc
from ytcaption.v1 import job_pb2
from ytcaption.v1 import normalizer_service_pb2 as normalizer_pb
from ytcaption.v1 import normalizer_service_pb2_grpc as normalizer_rpc
from ytcaption.v1 import transcriber_service_pb2 as transcriber_pb
from ytcaption.v1 import transcriber_service_pb2_grpc as transcriber_rpc

StageId: TypeAlias = "job_pb2.Stage.ValueType"
StateId: TypeAlias = "job_pb2.JobState.ValueType"

ASK_SECONDS = 15.0
"""A stage that is down fails at once; one that has just started first probes its own tools."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One row of the table."""

    id: StageId
    name: str
    """The short name of its service, which is also its field of `Stages`."""
    service: str
    """The full name of its service."""
    stub: Callable[[grpc.aio.Channel], Any]
    purge_request: Callable[..., Any]
    addresses: Callable[[Settings], str]
    """Its replicas, separated by commas."""
    stall_seconds: Callable[[Settings], float]
    """How long it may stand still; 0: as long as any other."""
    every_job: bool
    """Whether no job can begin without it."""


DOWNLOADER = Stage(
    id=job_pb2.STAGE_DOWNLOAD,
    name="downloader",
    service="ytcaption.v1.DownloaderService",
    stub=downloader_rpc.DownloaderServiceStub,
    purge_request=downloader_pb.DownloaderServicePurgeRequest,
    addresses=lambda settings: settings.downloader,
    stall_seconds=lambda settings: settings.download_stall_seconds,
    every_job=False,  # uploads and downloads kept for a retry need none
)
NORMALIZER = Stage(
    id=job_pb2.STAGE_NORMALIZATION,
    name="normalizer",
    service="ytcaption.v1.NormalizerService",
    stub=normalizer_rpc.NormalizerServiceStub,
    purge_request=normalizer_pb.NormalizerServicePurgeRequest,
    addresses=lambda settings: settings.normalizer,
    stall_seconds=lambda settings: settings.normalization_stall_seconds,
    every_job=True,
)
TRANSCRIBER = Stage(
    id=job_pb2.STAGE_TRANSCRIPTION,
    name="transcriber",
    service="ytcaption.v1.TranscriberService",
    stub=transcriber_rpc.TranscriberServiceStub,
    purge_request=transcriber_pb.TranscriberServicePurgeRequest,
    addresses=lambda settings: settings.transcriber,
    stall_seconds=lambda settings: settings.transcription_stall_seconds,
    every_job=True,
)
STAGES = (DOWNLOADER, NORMALIZER, TRANSCRIBER)
"""In the order in which a recording passes through them."""


def failure_of(
    error: MeshError, stage: StageId = job_pb2.STAGE_UNSPECIFIED, attempt: int = 0
) -> job_pb2.Failure:
    """The failure that callers see of an error."""
    return job_pb2.Failure(
        reason=error.reason,
        message=str(error),
        retryable=error.retryable,
        stage=stage,
        attempt=attempt,
    )


class StageError(Exception):
    """A stage failed, or the attempt as a whole did."""

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
    """Open channels to every stage."""

    downloader: downloader_rpc.DownloaderServiceStub
    normalizer: normalizer_rpc.NormalizerServiceStub
    transcriber: transcriber_rpc.TranscriberServiceStub
    channels: dict[StageId, grpc.aio.Channel]
    circuits: dict[StageId, Circuit]
    token: str = field(default="", repr=False)
    """What calls to the stages carry; the channels add it by themselves."""


@asynccontextmanager
async def open_stages(settings: Settings) -> AsyncIterator[Stages]:
    """Connects lazily: a stage that is down is found out when it is called."""
    token = optional_token(settings.stages_token_file)
    async with AsyncExitStack() as opened:
        channels = {
            stage.id: await opened.enter_async_context(
                open_channel(
                    stage.addresses(settings), stage.service, tls=settings.tls, token=token
                )
            )
            for stage in STAGES
        }
        circuits = {
            stage.id: Circuit(
                stage.name, failures=settings.circuit_failures, seconds=settings.circuit_seconds
            )
            for stage in STAGES
        }
        stubs = {stage.name: stage.stub(channels[stage.id]) for stage in STAGES}
        yield Stages(channels=channels, circuits=circuits, token=token, **stubs)


@dataclass(frozen=True, slots=True)
class Selected:
    """The models that make the text of a job."""

    speech: str
    translation: str
    """Empty if none is needed, or the speech model does it itself."""


async def list_models(stages: Stages) -> transcriber_pb.ListModelsResponse:
    """The models and translations of the transcriber."""
    return await stages.transcriber.ListModels(
        transcriber_pb.ListModelsRequest(), timeout=ASK_SECONDS, metadata=call_metadata()
    )


async def selected_models(stages: Stages, language_out: str) -> Selected:
    """The models a job would get now."""
    listed = await list_models(stages)
    speech = next((model.name for model in listed.models if model.selected), "")
    target = tag_of(language_out)
    able = (one.model for one in listed.translations if target in one.target_languages)
    translation = next(able, speech)
    return Selected(speech, "" if translation == speech else translation)


def stage_stall_seconds(settings: Settings) -> dict[StageId, float]:
    """How long each stage may stand still, where the operator says so."""
    return {stage.id: wait for stage in STAGES if (wait := stage.stall_seconds(settings))}


def stage_position(stage: StageId) -> int:
    """The place of a stage in the pipeline; that of the job as a whole is before all."""
    return next((place for place, row in enumerate(STAGES) if row.id == stage), -1)


def stage_name(stage: StageId) -> str:
    """Names a stage as metrics do, such as "download"; "job" for the job as a whole."""
    word = job_pb2.Stage.Name(stage).removeprefix("STAGE_").lower()
    return "job" if word == "unspecified" else word


def reset_stages(job: job_pb2.Job) -> None:
    """Puts every stage of the job before its first step."""
    del job.stages[:]
    for stage in STAGES:
        job.stages.add(stage=stage.id, state=job_pb2.STAGE_STATE_PENDING, attempt=job.attempt)


def stage_status(job: job_pb2.Job | job_pb2.JobProgress, stage: StageId) -> job_pb2.StageStatus:
    """The status of one stage; added if the record is older than the stage."""
    for status in job.stages:
        if status.stage == stage:
            return status
    return job.stages.add(stage=stage, state=job_pb2.STAGE_STATE_PENDING, attempt=job.attempt)
