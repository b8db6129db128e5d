"""The JSON models of outgoing events. Unknown values are left out."""

from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from mesh.messages import enum_names
from orchestrator.events.parameters import Options, Parameters
from orchestrator.events.parsing import SourceParts
from ytcaption.v1 import job_pb2

if TYPE_CHECKING:
    StageWord: TypeAlias = str
else:
    StageWord = Literal[enum_names(job_pb2.Stage.DESCRIPTOR)]
StateWord = Literal["running", "completed", "failed", "timed_out", "skipped"]


class EventModel(BaseModel):
    """Base of all outgoing models."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Failure(EventModel):
    """Why it failed."""

    motivo: str = Field(description="One of the reasons in docs/errors.md.")
    mensagem: str = Field(description="One sentence for a person.")
    repetivel: bool = Field(description="Whether the same may succeed later.")
    etapa: StageWord | None = None
    tentativa: int


class JobWarning(EventModel):
    """A doubt about a recording that was transcribed."""

    motivo: str = Field(description="One of the warnings in docs/errors.md.")
    mensagem: str = Field(description="One sentence for a person.")


class Chapter(EventModel):
    """One named part of a recording; times are in seconds."""

    inicio: float
    fim: float
    titulo: str


class Media(EventModel):
    """Metadata of the source."""

    id: str | None = None
    titulo: str | None = None
    autor: str | None = None
    duracao: float | None = Field(default=None, description="Seconds.")
    data_publicacao: str | None = Field(default=None, description="YYYY-MM-DD.")
    pagina: str | None = None
    miniatura: str | None = None
    extrator: str | None = None
    formato: str | None = None
    capitulos: list[Chapter] = []


class EventPayload(EventModel):
    """Fields of every payload."""

    collection_id: str | None = Field(default=None, description="Left out if there is none.")
    job_id: str | None = Field(
        default=None, description="Left out if it concerns a whole collection."
    )
    attempt: int = Field(description="From 1; 0 if it concerns a whole collection.")
    estado: StateWord


class RecordingPayload(EventPayload):
    """The payload of an event about one recording."""

    fonte: str = Field(description="Its address, or the name of the file that was sent.")


class FetchOrBatchStarted(EventPayload):
    """The fetch of one recording starts (with job_id), or a batch starts (without)."""

    fonte: str | SourceParts = Field(
        description="Of a recording its address; of a collection its parts."
    )
    parametros: Parameters


class FetchResult(RecordingPayload):
    """One recording was fetched, or the fetch failed."""

    tamanho: int = Field(description="Bytes fetched.")
    media: Media | None = None
    falha: Failure | None = None


class TranscriptionStarted(RecordingPayload):
    """The transcription of one recording starts."""

    modelo: str
    parametros: Options


class TranscriptionResult(RecordingPayload):
    """One recording was transcribed, or the transcription failed."""

    idioma: str | None = Field(default=None, description="BCP-47 tag of the spoken language.")
    modelo: str | None = None
    duracao: float = Field(description="Of the recording, in seconds.")
    segmentos: int
    avisos: list[JobWarning] | None = Field(default=None, description="Left out if there are none.")
    falha: Failure | None = None


class Envelope(EventModel):
    """Fields of every event."""

    evento_id: str = Field(description="The same event never has two.")
    correlation_id: str
    timestamp: datetime


class FetchOrBatchStartedEvent(Envelope):
    """START_COLLECTION on the wire."""

    tipo_evento: Literal["iniciar_coleta"] = "iniciar_coleta"
    payload: FetchOrBatchStarted


class FetchResultEvent(Envelope):
    """COLLECTION_RESULT on the wire."""

    tipo_evento: Literal["resultado_coleta"] = "resultado_coleta"
    payload: FetchResult


class TranscriptionStartedEvent(Envelope):
    """START_EXECUTION on the wire."""

    tipo_evento: Literal["iniciar_execucao"] = "iniciar_execucao"
    payload: TranscriptionStarted


class TranscriptionResultEvent(Envelope):
    """EXECUTION_RESULT on the wire."""

    tipo_evento: Literal["resultado_execucao"] = "resultado_execucao"
    payload: TranscriptionResult


AnyEvent = (
    FetchOrBatchStartedEvent
    | FetchResultEvent
    | TranscriptionStartedEvent
    | TranscriptionResultEvent
)
