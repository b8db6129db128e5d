"""docs/settings.md names every setting of every service, with its default."""

from importlib import import_module

import pytest

from mesh.settings import ServiceSettings
from tests.docs.pages import SERVICES, code, page, rows


def _settings(service: str) -> type[ServiceSettings]:
    found: type[ServiceSettings] = import_module(f"{service}.settings").Settings
    return found


def _table(service: str) -> dict[str, str]:
    section = page("docs/settings.md").split(f"## {service.capitalize()}\n")[1].split("\n## ")[0]
    return {code(row[0]): row[1] for row in rows(section)}


@pytest.mark.parametrize("service", SERVICES)
def test_the_table_names_every_variable_and_no_other(service: str) -> None:
    settings = _settings(service)
    prefix = settings.model_config["env_prefix"]

    assert list(_table(service)) == [f"{prefix}{name.upper()}" for name in settings.model_fields]


@pytest.mark.parametrize("service", SERVICES)
def test_the_defaults_are_those_of_the_code(service: str) -> None:
    settings = _settings(service)
    prefix = settings.model_config["env_prefix"]
    table = _table(service)

    for name, field in settings.model_fields.items():
        said = table[f"{prefix}{name.upper()}"]
        if isinstance(field.default, str | int | float):
            assert said == _written(field.default), name
        else:  # a folder of this machine, described in words
            assert said, name


def _written(default: str | float) -> str:
    if default == "":
        return "(empty)"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"
