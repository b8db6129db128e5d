"""The JSON models of outgoing events. Unknown values are left out."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

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
Status = Literal["pendente", "em_execucao", "concluida", "erro", "timeout"]
"""The states of the original contract."""


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


class ResultPayload(EventPayload):
    """The payload of a result: of one recording, or of a request that was refused."""

    fonte: str | None = Field(
        default=None,
        description="Its address, or the name of the file that was sent; left out of a refusal.",
    )
    status: Status
    erros: list[Failure] = Field(default=[], description="Why it failed; empty on success.")


class Collected(EventModel):
    """What was fetched."""

    endereco: str = Field(description="Its address, or the name of the file that was sent.")
    tamanho: int = Field(description="Bytes.")
    media: Media | None = None


class FetchOrBatchStarted(EventPayload):
    """The fetch of one recording starts (with job_id), or a batch starts (without)."""

    fonte: str | SourceParts = Field(
        description="Of a recording its address; of a collection its parts."
    )
    parametros: Parameters


class FetchResult(ResultPayload):
    """One recording was fetched, or could not be; or a request to collect was refused."""

    dados: Collected | None = Field(default=None, description="Left out on failure.")
    tamanho: int = Field(description="Bytes fetched.")
    media: Media | None = None
    falha: Failure | None = None


class TranscriptionStarted(RecordingPayload):
    """The transcription of one recording starts."""

    modelo: str
    parametros: Options


class TranscriptionResult(ResultPayload):
    """One recording was transcribed, or could not be; or a request to execute was refused."""

    resultado: Literal["ok", "erro"]
    arquivo: str | None = Field(default=None, description="Name of the captions; left out without.")
    arquivo_endereco: str | None = Field(
        default=None, description="Where to get them: a path of the HTTP gateway."
    )
    idioma: str | None = Field(default=None, description="BCP-47 tag of the spoken language.")
    modelo: str | None = None
    duracao: float = Field(description="Of the recording, in seconds.")
    segmentos: int
    avisos: list[JobWarning] | None = Field(default=None, description="Left out if there are none.")
    falha: Failure | None = None


class Counts(EventModel):
    """How many subtasks are in each state."""

    pendente: int = 0
    em_execucao: int = 0
    concluida: int = 0
    erro: int = 0
    timeout: int = 0


class ResultFile(EventModel):
    """A file an executor made."""

    nome: str
    tipo: str = Field(description="Its media type.")
    tamanho: int = Field(description="Bytes.")
    sha256: str
    endereco: str = Field(description="Where to get it: a path of the HTTP gateway.")


class Subtask(EventModel):
    """One recording of a collection as it stands; or a call of a collector or an executor."""

    numero: int = Field(description="Its place in the collection, from 1, within its kind.")
    funcao: Literal["escavador", "executador"] | None = Field(
        default=None, description="Left out of a recording."
    )
    tarefa_id: str | None = Field(default=None, description="Of a collector or an executor.")
    job_id: str | None = None
    fonte: str = Field(description="Its address; of a collector or an executor its type.")
    titulo: str | None = None
    status: Status
    estado: Literal["pending", "running", "completed", "failed", "timed_out", "cancelled"]
    resultado: Literal["ok"] | None = Field(default=None, description="Left out without one.")
    arquivo: str | None = None
    arquivo_endereco: str | None = None
    idioma: str | None = None
    duracao: float | None = Field(default=None, description="Seconds.")
    atrasada: bool = Field(default=False, description="It ended after the time limit.")
    erros: list[Failure] = []
    parametros: dict[str, Any] | None = Field(
        default=None, description="Of a collector or an executor."
    )
    encontrados: int | None = Field(default=None, description="What a collector found.")
    dados: dict[str, Any] | None = Field(default=None, description="The result of an executor.")
    arquivos: list[ResultFile] | None = Field(default=None, description="Files of an executor.")


class Aggregate(EventModel):
    """All results of a collection, once every subtask ended or the time was up."""

    collection_id: str
    titulo: str | None = None
    estado: Literal["complete", "partial", "cancelled"]
    completo: bool = Field(description="Whether every source was listed and every subtask is done.")
    definitivo: bool = Field(
        description="Whether nothing can change; else another aggregate follows the late results."
    )
    total: int = Field(description="Subtasks, over all parts.")
    contagens: Counts = Field(description="Over all parts.")
    erros: list[Failure] = Field(default=[], description="Sources that could not be listed.")
    prazo: datetime | None = Field(default=None, description="When the time is up.")
    parte: int = Field(default=1, description="From 1: a large collection comes in several parts.")
    partes: int = 1
    subtarefas: list[Subtask]


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


class AggregateEvent(Envelope):
    """COLLECTION_GATHERED on the wire; COLLECTION_SETTLED too, if results came late."""

    tipo_evento: Literal["resultado_agregado"] = "resultado_agregado"
    payload: Aggregate


AnyEvent = (
    FetchOrBatchStartedEvent
    | FetchResultEvent
    | TranscriptionStartedEvent
    | TranscriptionResultEvent
    | AggregateEvent
)
