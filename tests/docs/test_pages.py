"""The pages describe the command as it is, and their links and module paths exist."""

import re

import click
import pytest

from cli.__main__ import command
from cli.exits import Exit
from tests.docs.pages import ROOT, SERVICES, code, page, rows

PAGES = [
    str(path.relative_to(ROOT)) for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
]


@pytest.mark.parametrize("path", PAGES)
def test_every_link_within_the_project_leads_to_a_file(path: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page(path)):
        if "://" not in target:
            assert (ROOT / path).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("path", PAGES)
def test_every_command_named_exists(path: str) -> None:
    for name in re.findall(r"(?:bin/|`)ytcaption ([a-z-]+)", page(path)):
        assert name in command.commands, name


def _section(path: str, title: str) -> str:
    return page(path).split(f"## {title}\n")[1].split("\n## ")[0]


def _options(name: str) -> set[str]:
    parameters = command.commands[name].params
    return {option for each in parameters if isinstance(each, click.Option) for option in each.opts}


def test_the_exit_codes_are_those_of_the_command() -> None:
    section = _section("docs/cli.md", "Exit codes")

    assert [int(row[0]) for row in rows(section)] == [int(code) for code in Exit]


@pytest.mark.parametrize("name", ["transcribe", "up", "doctor"])
def test_every_option_in_the_reference_is_an_option_of_its_command(name: str) -> None:
    listed = rows(_section("docs/cli.md", f"Options of {name}"))

    assert listed
    for row in listed:
        for option in re.findall(r"--[a-z0-9-]+", row[0]):
            assert option in _options(name), option


@pytest.mark.parametrize("name", ["up", "doctor"])
def test_every_option_is_in_the_reference(name: str) -> None:
    section = _section("docs/cli.md", f"Options of {name}")

    assert _options(name) == set(re.findall(r"--[a-z][a-z-]+", section))


def test_the_reference_lists_every_command_once() -> None:
    listed = [code(row[0]).split()[1] for row in rows(_section("docs/cli.md", "Commands"))]

    assert sorted(listed) == sorted(command.commands)


@pytest.mark.parametrize("path", PAGES)
def test_every_option_of_a_shown_command_exists(path: str) -> None:
    for name, rest in re.findall(r"\.venv/bin/ytcaption ([a-z-]+)([^\n]*)", page(path)):
        shown = set(re.findall(r"(?<=\s)--[a-z0-9-]+", rest.split("  #")[0]))
        known = _options(name)
        if isinstance(group := command.commands[name], click.Group):
            known = {
                option
                for one in group.commands.values()
                for each in one.params
                for option in each.opts
            }
        assert shown <= known, (name, shown - known)


def test_every_make_target_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", page("Makefile"), re.MULTILINE))

    for path in PAGES:
        assert set(re.findall(r"(?:`|^)make ([a-z]+)", page(path), re.MULTILINE)) <= targets, path


def test_every_setting_a_page_names_is_in_the_table_of_settings() -> None:
    known = {code(row[0]) for row in rows(page("docs/settings.md"))}
    prefixes = "|".join(SERVICES).upper()

    for path in PAGES:
        assert set(re.findall(rf"\b(?:{prefixes})_[A-Z0-9_]+", page(path))) <= known, path


def _shown(text: str) -> list[tuple[str, str, list[str]]]:
    """Each command of a page: the program, its first word, its options."""
    lines = re.findall(r"^(make|curl|\.venv/bin/ytcaption) (\S+)(.*)$", text, re.MULTILINE)
    return [
        (program, word, sorted(re.findall(r"(?<=\s)--?[a-zA-Z-]+", rest.split("  #")[0])))
        for program, word, rest in lines
    ]


def test_the_portuguese_readme_shows_the_same_commands_and_options() -> None:
    english, portuguese = page("README.md"), page("README.pt-BR.md")

    assert _shown(english) == _shown(portuguese)
    assert set(re.findall(r"\]\((docs/[^)]+)\)", english)) == set(
        re.findall(r"\]\((docs/[^)]+)\)", portuguese)
    )


MODULE = re.compile(rf"`((?:{'|'.join(SERVICES)}|cli|mesh|captions|reports)/[\w/]+\.py)`")
MAPS = (
    "docs/architecture.md",
    "docs/glossary.md",
    "docs/security.md",
    "docs/adr/0022-rooms-and-names.md",
    "CONTRIBUTING.md",
)


@pytest.mark.parametrize("path", MAPS)
def test_every_module_a_map_names_exists(path: str) -> None:
    missing = {one for one in MODULE.findall(page(path)) if not (ROOT / one).exists()}

    assert missing == set()
