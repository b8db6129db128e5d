"""Probes which tools and options work on this machine, by trying them once."""

import asyncio
import json
import os
import re
import sys

from mesh.errors import UnsupportedError
from mesh.reasons import Reason
from normalizer.engine import IsolatorInfo
from normalizer.ffmpeg_command import environment, locate
from normalizer.processes import ProcessLimits, Program, read_outputs

_NEEDED = {
    "remove_noise": "afftdn",
    "convert_to_mono": "aformat",
    "apply_highpass_filter": "highpass",
    "set_sample_rate_16k": "aformat",
    "loudness_lufs": "loudnorm",
    "isolate_vocals": "pan",
    "keep_audio": "libopus",
}
"""The ffmpeg filter or encoder each option needs."""

_LISTED = re.compile(rb"^ [A-Z.|]{2,6} (\w+)", re.MULTILINE)
"""A line of `ffmpeg -filters` or `ffmpeg -encoders`."""

_PROBE_SECONDS = 60.0


class CapabilityProbe:
    """Finds the installed tools. Remembers what works; probes again what did not."""

    def __init__(self, ffmpeg: str, isolator: str, process_limits: ProcessLimits) -> None:
        self._ffmpeg = ffmpeg
        self._isolator = isolator
        self._process_limits = process_limits
        self._probing = asyncio.Lock()
        self._isolation: IsolatorInfo | None = None
        self._parts: frozenset[str] = frozenset()

    async def ffmpeg(self) -> str:
        """Path of ffmpeg; raises if there is none."""
        return await asyncio.to_thread(locate, self._ffmpeg)

    async def isolation(self) -> IsolatorInfo:
        """The voice isolator; raises if none works."""
        async with self._probing:
            if self._isolation is None:
                self._isolation = await _probe(self._isolator, self._process_limits)
            return self._isolation

    async def all(self) -> dict[str, str]:
        """Why each option does not work on this machine; empty if it does."""
        parts = await self._parts_of_ffmpeg()
        found = {
            option: "" if part in parts else f"this ffmpeg has no {part}"
            for option, part in _NEEDED.items()
        }
        try:
            await self.isolation()
        except UnsupportedError as error:
            found["isolate_vocals"] = str(error)
        return found

    async def _parts_of_ffmpeg(self) -> frozenset[str]:
        if not self._parts:
            ffmpeg = await self.ffmpeg()
            lists = [await self._listed(ffmpeg, kind) for kind in ("-filters", "-encoders")]
            self._parts = frozenset().union(*lists)
        return self._parts

    async def _listed(self, ffmpeg: str, kind: str) -> set[str]:
        program = Program(lambda _: [ffmpeg, "-hide_banner", kind], environment())
        output, _, _ = await read_outputs(program, self._process_limits)
        return {name.decode() for name in _LISTED.findall(output)}


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


async def _probe(engine: str, process_limits: ProcessLimits) -> IsolatorInfo:
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
