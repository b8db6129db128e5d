"""Builds the voice isolation process and probes whether its isolator works here."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass

from mesh.errors import UnsupportedError
from mesh.reasons import Reason
from normalizer.processes import ProcessLimits, Program, read_outputs

_PROBE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class IsolatorInfo:
    """A voice isolator that has passed its probe."""

    engine: str
    name: str
    settings: dict[str, str]
    rate: int


def worker_program(engine: str, *arguments: str) -> Program:
    """The isolation process; it gets our import path and nothing else of our environment."""
    path = os.pathsep.join(each or str(os.getcwd()) for each in sys.path)  # noqa: PTH109
    environment = {
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",  # each further thread would only take address space
        "LC_ALL": "C.UTF-8",
    }
    command = [sys.executable, "-m", "normalizer.isolation_worker", engine, *arguments]
    return Program(lambda _: command, environment)


async def probe(engine: str, process_limits: ProcessLimits) -> IsolatorInfo:
    """Runs the isolator on a second of silence; raises if that fails."""
    program = worker_program(engine, "--describe")
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            output, errors, exit_code = await read_outputs(program, process_limits)
    except TimeoutError as error:
        raise _refusal(f"the isolator did not start within {_PROBE_SECONDS:g} s") from error
    if exit_code:
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        raise _refusal(lines[-1] if lines else "the isolator exited without an error message")
    return IsolatorInfo(engine, **json.loads(output))


def _refusal(why: str) -> UnsupportedError:
    return UnsupportedError(
        f"isolate_vocals does not work on this machine: {why}",
        reason=Reason.OPTION_UNSUPPORTED,
    )
