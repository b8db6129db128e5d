"""The contract of a voice isolator, which separates speech from all other sound."""

from importlib import import_module
from typing import Protocol

import numpy as np
import numpy.typing as npt

AudioArray = npt.NDArray[np.float32]

DEFAULT = "normalizer.deepfilter:DeepFilter"


class VoiceIsolator(Protocol):
    """Isolates the voice of one recording as a stream, in constant memory."""

    name: str
    """Its name among the job's filters."""
    settings: dict[str, str]
    rate: int
    """Its sample rate in Hz."""

    def feed(self, sound: AudioArray) -> AudioArray:
        """The voice that is ready by now; it may lag behind the input."""
        ...

    def finish(self) -> AudioArray:
        """The rest: in total exactly as many samples come out as went in."""
        ...


def load(engine: str) -> VoiceIsolator:
    """A new isolator of the class "module:Class"; raises ImportError if it is not installed."""
    module, _, name = engine.partition(":")
    isolator: VoiceIsolator = getattr(import_module(module), name)()
    return isolator
