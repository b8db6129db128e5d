"""The JSON Schemas of docs/schemas; `python -m orchestrator.events.schemas` writes them."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from orchestrator.events import models
from orchestrator.events.parsing import ContractMessage, StartEvent

INCOMING: dict[str, type[BaseModel]] = {
    "mensagem_schema.json": ContractMessage,
    "in.iniciar_coleta.schema.json": StartEvent,
}
OUTGOING: dict[str, type[BaseModel]] = {
    "out.iniciar_coleta.schema.json": models.FetchOrBatchStartedEvent,
    "out.resultado_coleta.schema.json": models.FetchResultEvent,
    "out.iniciar_execucao.schema.json": models.TranscriptionStartedEvent,
    "out.resultado_execucao.schema.json": models.TranscriptionResultEvent,
    "out.resultado_agregado.schema.json": models.AggregateEvent,
}
FOLDER = Path("docs/schemas")


class Plain(GenerateJsonSchema):
    """Without titles that only repeat the names of the fields."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Never."""
        return False


def schemas() -> dict[str, str]:
    """Each file's name and text."""
    found = {name: _text(model, "validation") for name, model in INCOMING.items()}
    return found | {name: _text(model, "serialization") for name, model in OUTGOING.items()}


def _text(model: type[BaseModel], mode: JsonSchemaMode) -> str:
    schema = model.model_json_schema(mode=mode, schema_generator=Plain)
    return json.dumps({"$schema": Plain.schema_dialect, **schema}, indent=2) + "\n"


if __name__ == "__main__":
    for name, text in schemas().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
