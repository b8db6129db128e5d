"""The JSON of programs that serve a type over NATS: the messages they get, and their answers."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mesh.errors import InvalidRequestError, MeshError
from mesh.messages import struct_of
from mesh.reasons import RETRYABLE, Reason
from ytcaption.v1 import collector_service_pb2, executor_service_pb2, task_pb2

START_COLLECTION, START_EXECUTION = "iniciar_coleta", "iniciar_execucao"
COLLECTION_RESULT, EXECUTION_RESULT = "resultado_coleta", "resultado_execucao"
DONE, ERROR = "concluida", "erro"
MAX_WORD = 200
MAX_MESSAGE = 2000

Word = Annotated[str, Field(max_length=MAX_WORD)]


class Answer(BaseModel):
    """Base of what programs answer: keys that we do not know are theirs."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Found(Answer):
    """One thing that a collector found."""

    tipo: Literal["documento", "gravacao"]
    chave: str = Field(default="", description="The same for the same thing; else its address.")
    url: str = ""
    titulo: str = ""
    texto: str = ""
    idioma: str = ""
    data_publicacao: str = ""
    metadados: dict[str, Any] = {}


class Fault(Answer):
    """Why it failed."""

    motivo: Word = ""
    mensagem: str = ""
    repetivel: bool = False


class Result(Answer):
    """The payload of `resultado_coleta` and `resultado_execucao`."""

    tarefa_id: Word = ""
    status: Literal["concluida", "erro"]
    dados: list[Found] = []
    resultado: dict[str, Any] | None = None
    erros: list[Fault] = []


class TaskError(MeshError):
    """A program said that a task failed, and whether it may succeed later."""

    def __init__(self, message: str, *, reason: Reason, retryable: bool) -> None:
        super().__init__(message, reason=reason)
        self._retryable = retryable

    @property
    def retryable(self) -> bool:
        """As the program said."""
        return self._retryable


def read_result(payload: dict[str, Any]) -> Result:
    """The payload of a result; InvalidRequestError (EVENT_MALFORMED) that names what is wrong."""
    try:
        return Result.model_validate(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(["payload", *map(str, first["loc"])])
        raise _malformed(f"{place}: {first['msg']}") from error


def check_failure(result: Result) -> None:
    """Raises what the program said went wrong, if it failed."""
    if result.status == DONE:
        return
    fault = result.erros[0] if result.erros else Fault()
    try:
        reason = Reason(fault.motivo)
    except ValueError:
        reason = Reason.TASK_REFUSED
    message = fault.mensagem[:MAX_MESSAGE] or fault.motivo or "it failed, and did not say why"
    retryable = fault.repetivel or (not result.erros and reason in RETRYABLE)
    raise TaskError(message, reason=reason, retryable=retryable)


def collected(found: Found) -> collector_service_pb2.CollectResponse:
    """What a collector found, as one that is called over gRPC says it."""
    response = collector_service_pb2.CollectResponse(key=found.chave)
    if found.tipo == "gravacao":
        response.recording.url, response.recording.title = found.url, found.titulo
        response.recording.publish_date = found.data_publicacao
        response.recording.metadata.CopyFrom(struct_of(found.metadados))
    else:
        document = task_pb2.Document(
            url=found.url,
            title=found.titulo,
            text=found.texto,
            language=found.idioma,
            publish_date=found.data_publicacao,
            metadata=struct_of(found.metadados),
        )
        response.document.CopyFrom(document)
    return response


def executed(result: Result) -> executor_service_pb2.ExecuteResponse:
    """What an executor made, as one that is called over gRPC says it."""
    return executor_service_pb2.ExecuteResponse(result=struct_of(result.resultado or {}))


def envelope(kind: str, correlation_id: str, payload: dict[str, Any]) -> dict[str, Any]:
    """A message of the contract."""
    return {
        "correlation_id": correlation_id,
        "tipo_evento": kind,
        "timestamp": datetime.now(UTC).isoformat(),
        "payload": payload,
    }


def _malformed(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, reason=Reason.EVENT_MALFORMED)
