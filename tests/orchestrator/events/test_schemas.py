"""The committed JSON Schemas are those of the code, and the committed examples fit them."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from orchestrator.events.parsing import Incoming, read
from orchestrator.events.rendering import rendered
from orchestrator.events.schemas import schemas
from tests.orchestrator.events.incoming import WRONG
from tests.orchestrator.events.outbox import executed
from tests.orchestrator.events.schema import FOLDER, validator
from tests.orchestrator.events.starting import as_json, event

ENVELOPE = "mensagem_schema.json"
EXAMPLES = sorted((FOLDER / "examples").glob("*.json"))


def test_the_schemas_are_those_of_the_code() -> None:
    committed = {path.name: path.read_text() for path in FOLDER.glob("*schema.json")}

    assert committed == schemas(), "run python -m orchestrator.events.schemas"


def test_there_is_an_example_of_every_kind() -> None:
    named = {f"{path.stem}.schema.json" for path in EXAMPLES}

    assert named | {ENVELOPE} == set(schemas())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_fits_its_schema(path: Path) -> None:
    found = json.loads(path.read_text())

    validator(path.stem).validate(found)
    assert not validator(path.stem).is_valid(found | {"more": 1})


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_message_fits_the_common_envelope(path: Path) -> None:
    envelope = jsonschema_rs.Draft202012Validator(
        json.loads((FOLDER / ENVELOPE).read_text()), validate_formats=True
    )
    found = json.loads(path.read_text())

    envelope.validate(found)
    for name in ("correlation_id", "tipo_evento", "payload", "timestamp"):
        assert not envelope.is_valid({key: found[key] for key in found if key != name})


def test_the_incoming_example_is_accepted() -> None:
    data = (FOLDER / "examples" / "in.iniciar_coleta.json").read_bytes()

    request = read(Incoming("ytc.in.iniciar_coleta", data, 1, datetime.now(UTC)))

    assert request.sources
    assert request.options.language == "pt"


def test_rendered_events_fit_the_schema() -> None:
    found = json.loads(rendered(executed(3)).model_dump_json(exclude_none=True))

    validator("out.resultado_execucao").validate(found)


@pytest.mark.parametrize(
    "found", [found for found, _ in WRONG if isinstance(found, dict)], ids=lambda found: str(found)
)
def test_the_schema_refuses_what_we_refuse(found: Any) -> None:
    assert not validator("in.iniciar_coleta").is_valid(json.loads(as_json(found)))
    assert validator("in.iniciar_coleta").is_valid(event())
