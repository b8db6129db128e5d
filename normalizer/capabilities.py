"""What this machine can do, found out once and by trying."""

import asyncio
import re

from mesh.errors import UnsupportedError
from normalizer.child import Ceiling, Program, running
from normalizer.command import environment, locate
from normalizer.engine import Capability
from normalizer.isolation import Isolation, probe

_NEEDED = {
    "remove_noise": "afftdn",
    "convert_to_mono": "aformat",
    "apply_highpass_filter": "highpass",
    "set_sample_rate_16k": "aformat",
    "loudness_lufs": "loudnorm",
    "isolate_vocals": "pan",
    "keep_audio": "libopus",
}
"""The filter or encoder without which ffmpeg cannot honour an option."""

_LISTED = re.compile(rb"^ [A-Z.|]{2,6} (\w+)", re.MULTILINE)
"""A line of `ffmpeg -filters` or `ffmpeg -encoders`."""


class Abilities:
    """The tools that are installed. Good news is remembered; bad news is looked at again."""

    def __init__(self, ffmpeg: str, isolator: str, ceiling: Ceiling) -> None:
        self._ffmpeg = ffmpeg
        self._isolator = isolator
        self._ceiling = ceiling
        self._probing = asyncio.Lock()
        self._isolation: Isolation | None = None
        self._parts: frozenset[str] = frozenset()

    async def ffmpeg(self) -> str:
        """Path of the ffmpeg in use; fails if there is none."""
        return await asyncio.to_thread(locate, self._ffmpeg)

    async def isolation(self) -> Isolation:
        """The engine that isolates voices; fails if there is none that works."""
        async with self._probing:
            if self._isolation is None:
                self._isolation = await probe(self._isolator, self._ceiling)
            return self._isolation

    async def all(self) -> tuple[Capability, ...]:
        """One for every option there is."""
        parts = await self._parts_of_ffmpeg()
        found = {
            option: "" if part in parts else f"this ffmpeg has no {part}"
            for option, part in _NEEDED.items()
        }
        try:
            await self.isolation()
        except UnsupportedError as error:
            found["isolate_vocals"] = str(error)
        return tuple(Capability(option, why_not) for option, why_not in found.items())

    async def _parts_of_ffmpeg(self) -> frozenset[str]:
        if not self._parts:
            ffmpeg = await self.ffmpeg()
            lists = [await self._listed(ffmpeg, kind) for kind in ("-filters", "-encoders")]
            self._parts = frozenset().union(*lists)
        return self._parts

    async def _listed(self, ffmpeg: str, kind: str) -> set[str]:
        program = Program(lambda _: [ffmpeg, "-hide_banner", kind], environment())
        async with running(program, self._ceiling) as child:
            assert child.stdout is not None  # noqa: S101 # a pipe unless asked otherwise
            said, _ = await asyncio.gather(child.stdout.read(), child.stderr.read())
        return {name.decode() for name in _LISTED.findall(said)}
