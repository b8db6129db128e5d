"""The JSON form of the four kinds of event, as they go out. What is not known is left out."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.heralds.parameters import Options, Parameters
from orchestrator.heralds.reading import Both

StateWord = Literal["running", "completed", "failed", "timed_out", "skipped"]


class Shape(BaseModel):
    """Anything we tell."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Failure(Shape):
    """Why it did not work."""

    motivo: str = Field(description="One of the reasons in docs/errors.md.")
    mensagem: str = Field(description="One sentence for a person.")
    repetivel: bool = Field(description="Whether the same may succeed later.")
    etapa: Literal["download", "normalization", "transcription"] | None = None
    tentativa: int


class Chapter(Shape):
    """One named part of a recording; times are in seconds."""

    inicio: float
    fim: float
    titulo: str


class Media(Shape):
    """What the source says about itself."""

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


class Happening(Shape):
    """What every payload has."""

    collection_id: str | None = Field(default=None, description="Left out if there is none.")
    job_id: str | None = Field(
        default=None, description="Left out if it concerns a whole collection."
    )
    attempt: int = Field(description="From 1; 0 if it concerns a whole collection.")
    estado: StateWord


class OfOne(Happening):
    """Of one recording."""

    fonte: str = Field(description="Its address, or the name of the file that was sent.")


class CollectionStarted(Happening):
    """A recording is to be fetched, or a whole collection."""

    fonte: str | Both = Field(description="Of a recording its address; of a collection its parts.")
    parametros: Parameters


class Collected(OfOne):
    """A recording was fetched, or could not be."""

    tamanho: int = Field(description="Bytes fetched.")
    media: Media | None = None
    falha: Failure | None = None


class ExecutionStarted(OfOne):
    """A recording is to be transcribed."""

    modelo: str
    parametros: Options


class Executed(OfOne):
    """A recording was transcribed, or could not be."""

    idioma: str | None = Field(default=None, description="BCP-47 tag of the language heard.")
    modelo: str | None = None
    duracao: float = Field(description="Of the recording, in seconds.")
    segmentos: int
    falha: Failure | None = None


class Told(Shape):
    """The envelope."""

    evento_id: str = Field(description="The same event never has two.")
    correlation_id: str
    timestamp: datetime


class CollectionStartedEvent(Told):
    """START_COLLECTION."""

    tipo_evento: Literal["iniciar_coleta"] = "iniciar_coleta"
    payload: CollectionStarted


class CollectedEvent(Told):
    """COLLECTION_RESULT."""

    tipo_evento: Literal["resultado_coleta"] = "resultado_coleta"
    payload: Collected


class ExecutionStartedEvent(Told):
    """START_EXECUTION."""

    tipo_evento: Literal["iniciar_execucao"] = "iniciar_execucao"
    payload: ExecutionStarted


class ExecutedEvent(Told):
    """EXECUTION_RESULT."""

    tipo_evento: Literal["resultado_execucao"] = "resultado_execucao"
    payload: Executed


AnyEvent = CollectionStartedEvent | CollectedEvent | ExecutionStartedEvent | ExecutedEvent
