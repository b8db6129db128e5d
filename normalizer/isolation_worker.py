"""The voice isolation process: reads Matroska, writes two channels of samples.

Left is the voice, right the original sound, so that the reader can mix them. It is a process of its
own so that it can be killed with its call, and so that a crash of the isolator harms nothing else.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from mesh.errors import LimitExceededError
from mesh.frames import MAX_FRAME_BYTES
from normalizer.ffmpeg_log import TOO_LONG_EXIT
from normalizer.timeline import MatroskaBlocks, Timeline
from normalizer.voice_isolator import AudioArray, VoiceIsolator, load

_FULL_SCALE = 32_768
_STDIN, _STDOUT = 0, 1


class VoicePairer:
    """Buffers the original sound until the isolator returns its voice, and interleaves the two."""

    def __init__(self, isolator: VoiceIsolator) -> None:
        self._isolator = isolator
        self._waiting: AudioArray = np.empty(0, np.float32)

    def feed(self, samples: bytes) -> bytes:
        """The pairs that are ready by now."""
        original: AudioArray = np.frombuffer(samples, "<i2").astype(np.float32)
        original /= _FULL_SCALE
        self._waiting = np.concatenate([self._waiting, original])
        return self._paired(self._isolator.feed(original))

    def finish(self) -> bytes:
        """The remaining pairs."""
        pairs = self._paired(self._isolator.finish())
        if len(self._waiting):
            raise ValueError(f"the isolator lost {len(self._waiting)} samples")
        return pairs

    def _paired(self, voice: AudioArray) -> bytes:
        original, self._waiting = self._waiting[: len(voice)], self._waiting[len(voice) :]
        both = np.stack([voice, original], axis=1) * _FULL_SCALE
        return both.clip(-_FULL_SCALE, _FULL_SCALE - 1).astype("<i2").tobytes()


def isolate(
    isolator: VoiceIsolator, read: Callable[[], bytes], max_gap_seconds: float
) -> Iterator[bytes]:
    """Pairs for a whole recording; gaps in it become silence."""
    timeline = Timeline(max_gap_seconds, isolator.rate)
    blocks, pairer = MatroskaBlocks(), VoicePairer(isolator)
    while data := read():
        for block in blocks.feed(data):
            for samples in timeline.place(*block):
                yield pairer.feed(samples)
    yield pairer.finish()


def _write(data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(_STDOUT, left) :]


def describe(isolator: VoiceIsolator) -> None:
    """Tries the isolator on a second of silence and writes what it is."""
    pairer = VoicePairer(isolator)
    pairer.feed(bytes(2 * isolator.rate))
    pairer.finish()
    info = {"name": isolator.name, "settings": isolator.settings, "rate": isolator.rate}
    _write(json.dumps(info).encode())


def main(isolator: VoiceIsolator, max_gap_seconds: float) -> None:
    """Isolates from stdin to stdout."""
    read = partial(os.read, _STDIN, MAX_FRAME_BYTES)
    try:
        for pairs in isolate(isolator, read, max_gap_seconds):
            _write(pairs)
    except LimitExceededError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(TOO_LONG_EXIT)
    except BrokenPipeError:
        sys.exit(1)  # the process that reads reports its own failure


if __name__ == "__main__":
    _, engine, argument = sys.argv
    if argument == "--describe":
        describe(load(engine))
    else:
        main(load(engine), float(argument))
