"""The committed JSON Schemas."""

import json
from pathlib import Path

import jsonschema_rs

FOLDER = Path(__file__).parents[3] / "docs" / "schemas"


def validator(name: str) -> jsonschema_rs.Draft202012Validator:
    schema = json.loads((FOLDER / f"{name}.schema.json").read_text())
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
