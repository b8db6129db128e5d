"""The process that isolates a voice: Matroska in, two channels of samples out.

Left is the voice, right what was heard, so that whoever reads can mix them. It is a process of its
own so that it can be killed with its call, and take nothing with it if the engine crashes.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator

import numpy as np

from mesh.frames import MAX_FRAME_BYTES
from normalizer.isolator import Sound, VoiceIsolator, load
from normalizer.timeline import Blocks, Timeline

_FULL_SCALE = 32_768
_STDIN, _STDOUT = 0, 1


class Pairing:
    """Keeps what was heard until its voice is known."""

    def __init__(self, engine: VoiceIsolator) -> None:
        self._engine = engine
        self._waiting: Sound = np.empty(0, np.float32)

    def feed(self, samples: bytes) -> bytes:
        """Whatever is certain by now, as pairs."""
        heard: Sound = np.frombuffer(samples, "<i2").astype(np.float32)
        heard /= _FULL_SCALE
        self._waiting = np.concatenate([self._waiting, heard])
        return self._paired(self._engine.feed(heard))

    def finish(self) -> bytes:
        """The rest."""
        pairs = self._paired(self._engine.finish())
        if len(self._waiting):
            raise ValueError(f"the engine swallowed {len(self._waiting)} samples")
        return pairs

    def _paired(self, voice: Sound) -> bytes:
        heard, self._waiting = self._waiting[: len(voice)], self._waiting[len(voice) :]
        both = np.stack([voice, heard], axis=1) * _FULL_SCALE
        return both.clip(-_FULL_SCALE, _FULL_SCALE - 1).astype("<i2").tobytes()


def isolate(engine: VoiceIsolator, read: Callable[[], bytes]) -> Iterator[bytes]:
    """Pairs for a whole recording; holes in it are silence."""
    blocks, timeline, pairing = Blocks(), Timeline(engine.rate), Pairing(engine)
    while data := read():
        for block in blocks.feed(data):
            for samples in timeline.place(*block):
                yield pairing.feed(samples)
    yield pairing.finish()


def _write(data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(_STDOUT, left) :]


def main(name: str, *, describe: bool) -> None:
    """Isolates from stdin to stdout, or proves on a little silence that it could."""
    engine = load(name)
    if describe:
        pairing = Pairing(engine)
        pairing.feed(bytes(2 * engine.rate))
        pairing.finish()
        facts = {"name": engine.name, "settings": engine.settings, "rate": engine.rate}
        _write(json.dumps(facts).encode())
        return
    try:
        for pairs in isolate(engine, lambda: os.read(_STDIN, MAX_FRAME_BYTES)):
            _write(pairs)
    except BrokenPipeError:
        sys.exit(1)  # whoever reads has said why


if __name__ == "__main__":
    main(sys.argv[1], describe="--describe" in sys.argv)
