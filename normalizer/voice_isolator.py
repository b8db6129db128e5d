"""What the stage needs from an engine that lifts speech out of everything else."""

from importlib import import_module
from typing import Protocol

import numpy as np
import numpy.typing as npt

Sound = npt.NDArray[np.float32]

DEFAULT = "normalizer.deepfilter:DeepFilter"


class VoiceIsolator(Protocol):
    """One recording's worth of isolation, as a stream: it holds a moment, never the recording."""

    name: str
    """As the job lists it among its filters."""
    settings: dict[str, str]
    rate: int
    """Samples a second it works at."""

    def feed(self, sound: Sound) -> Sound:
        """The voice that is certain by now; it may lag behind what was fed."""
        ...

    def finish(self) -> Sound:
        """The rest: over all, exactly as many samples come out as went in."""
        ...


def load(engine: str) -> VoiceIsolator:
    """The engine of this name, "module:Class"; fails like an import if it is not installed."""
    module, _, name = engine.partition(":")
    made: VoiceIsolator = getattr(import_module(module), name)()
    return made
