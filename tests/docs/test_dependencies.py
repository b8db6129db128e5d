"""docs/dependencies.md says why for every dependency, and for nothing else."""

import re
import tomllib

import pytest

from tests.docs.pages import code, page, rows

SECTIONS = {
    "dependencies": "To run (`dependencies`)",
    "offline": "Weights without the hub (`offline`)",
    "vocals": "Voices out of music (`vocals`)",
    "elk": "Logs for Elastic (`elk`)",
    "bench": "The picture of `make bench` (`bench`)",
    "browser": "The tests of the page (`browser`)",
    "dev": "To develop (`dev`)",
}
PROJECT = tomllib.loads(page("pyproject.toml"))["project"]
DECLARED: dict[str, list[str]] = {
    "dependencies": PROJECT["dependencies"],
    **PROJECT["optional-dependencies"],
}


def _section(title: str) -> list[list[str]]:
    return rows(page("docs/dependencies.md").split(f"## {title}\n")[1].split("\n## ")[0])


def test_every_group_has_a_section() -> None:
    assert set(DECLARED) == set(SECTIONS)


@pytest.mark.parametrize("group", SECTIONS)
def test_a_section_lists_exactly_its_group(group: str) -> None:
    listed = [code(row[0]) for row in _section(SECTIONS[group])]
    declared = [re.split(r"[\[=<>~!; ]", line)[0] for line in DECLARED[group]]

    assert listed == declared


@pytest.mark.parametrize("group", SECTIONS)
def test_every_dependency_has_a_reason(group: str) -> None:
    assert all(row[1] for row in _section(SECTIONS[group]))
