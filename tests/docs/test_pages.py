"""What the pages say about the command is what the command does; their links lead somewhere."""

import re

import click
import pytest

from cli.__main__ import command
from cli.exits import Exit
from tests.docs.pages import ROOT, code, page, rows

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


def test_the_exit_codes_are_those_of_the_command() -> None:
    section = page("README.md").split("### Exit codes\n")[1].split("\n## ")[0]

    assert [int(row[0]) for row in rows(section)] == [int(code) for code in Exit]


def test_every_option_in_the_readme_is_an_option_of_transcribe() -> None:
    section = page("README.md").split("### Options\n")[1].split("\n## ")[0]
    parameters = command.commands["transcribe"].params
    known = {name for each in parameters if isinstance(each, click.Option) for name in each.opts}

    for row in rows(section):
        for name in re.findall(r"--[a-z0-9-]+", row[0]):
            assert name in known, name


def test_every_make_target_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", page("Makefile"), re.MULTILINE))

    for path in PAGES:
        assert set(re.findall(r"(?:`|^)make ([a-z]+)", page(path), re.MULTILINE)) <= targets, path


def test_every_setting_a_page_names_is_in_the_table_of_settings() -> None:
    known = {code(row[0]) for row in rows(page("docs/settings.md"))}
    prefixes = "ORCHESTRATOR|DOWNLOADER|NORMALIZER|TRANSCRIBER|GATEWAY"

    for path in PAGES:
        assert set(re.findall(rf"\b(?:{prefixes})_[A-Z0-9_]+", page(path))) <= known, path


def test_the_portuguese_readme_names_the_same_options_and_exit_codes() -> None:
    english, portuguese = page("README.md"), page("README.pt-BR.md")

    for pattern in (r"^\| `(-[^|]*)` \|", r"^\| (\d+) \|"):
        named = [re.findall(pattern, text, re.MULTILINE) for text in (english, portuguese)]
        options = [[re.findall(r"--?[a-z0-9-]+", row) or row for row in found] for found in named]
        assert options[0] == options[1]
