"""How the process that isolates a voice is called, and what it says about itself."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass

from mesh.errors import UnsupportedError
from mesh.reasons import Reason
from normalizer.child import Ceiling, Child, Program, running

_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Isolation:
    """An engine that has proved that it works here."""

    engine: str
    name: str
    settings: dict[str, str]
    rate: int


def isolating(engine: str, *arguments: str) -> Program:
    """The process; it finds what this one can import, and gets nothing else of ours."""
    path = os.pathsep.join(each or str(os.getcwd()) for each in sys.path)  # noqa: PTH109
    environment = {
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",  # each thread would take address space it has no use for
        "LC_ALL": "C.UTF-8",
    }
    command = [sys.executable, "-m", "normalizer.isolating", engine, *arguments]
    return Program(lambda _: command, environment)


async def probe(engine: str, ceiling: Ceiling) -> Isolation:
    """Lets the engine work on a second of silence; refuses if it cannot."""
    program = isolating(engine, "--describe")
    try:
        async with (
            asyncio.timeout(_PATIENCE_SECONDS),
            running(program, ceiling) as child,
        ):
            said, complaint = await _heard_out(child)
    except TimeoutError as error:
        raise _refusal("the engine did not get ready in time") from error
    if child.process.returncode:
        raise _refusal(complaint)
    facts = json.loads(said)
    return Isolation(engine, facts["name"], facts["settings"], facts["rate"])


async def _heard_out(child: Child) -> tuple[bytes, str]:
    assert child.stdout is not None  # noqa: S101 # a pipe unless asked otherwise
    said, complaints = await asyncio.gather(child.stdout.read(), child.stderr.read())
    await child.process.wait()
    lines = complaints.decode("utf-8", "replace").strip().splitlines()
    return said, lines[-1] if lines else "the engine ended without a word"


def _refusal(why: str) -> UnsupportedError:
    return UnsupportedError(
        f"isolate_vocals cannot be honoured on this machine: {why}",
        reason=Reason.OPTION_UNSUPPORTED,
    )
