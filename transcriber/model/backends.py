"""Measures CTranslate2's compute types and backends once: `python -m transcriber.model.backends`.

Every candidate decodes a few seconds of speech in a process of its own: CTranslate2 chooses its
backend when it is imported. The fastest one that hears what float32 hears is kept in a file of the
cache folder, and TRANSCRIBER_COMPUTE_TYPE=auto uses it from the next start on. The service never
measures: a choice made while jobs run would change their text.
"""

import json
import os
import platform
import re
import subprocess
import sys
import wave
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import process_time

import numpy as np

from transcriber.decoder import Audio, DecodeOptions, Weights
from transcriber.model.fork_server import DEFAULTS, REQUIRED

COMPUTE_TYPES = ("int8", "int8_float32", "int8_bfloat16", "float32")
BACKENDS: tuple[Mapping[str, str], ...] = ({}, {"CT2_USE_MKL": "0"}, {"CT2_USE_MKL": "1"})
"""What CTranslate2 chooses by itself, oneDNN, and MKL."""

MIN_GAIN = 0.95
"""A candidate must need less than this share of the default's time: figures vary a little."""

RUNS = 3
SECONDS = 300.0
"""The most a candidate may take, its start included."""

SPEECH = Path(__file__).with_name("self_test.wav")


@dataclass(frozen=True, slots=True)
class Backend:
    """A way to compute."""

    compute_type: str
    environment: Mapping[str, str] = field(default_factory=dict)


DEFAULT, REFERENCE = Backend("int8"), Backend("float32")


@dataclass(frozen=True, slots=True)
class Measured:
    """Processor seconds a backend takes for the speech, and what it hears."""

    backend: Backend
    seconds: float
    text: str


def recorded(cache_dir: Path, model: str) -> Backend | None:
    """The backend measured on this machine for this model; None if none was."""
    try:
        found = json.loads(_record(cache_dir).read_text(encoding="utf-8"))
        return Backend(**found["backend"]) if found["for"] == _identity(model) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(backend: Backend, cache_dir: Path, model: str) -> None:
    """Writes the record; a reader sees the old one or the new one."""
    path = _record(cache_dir)
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(f".{os.getpid()}")
    text = json.dumps({"for": _identity(model), "backend": asdict(backend)})
    written.write_text(text, encoding="utf-8")
    written.replace(path)


def choose(measured: Sequence[Measured]) -> Backend:
    """The fastest that hears what float32 hears; the default unless another is clearly faster."""
    texts = {one.text for one in measured if one.backend == REFERENCE}
    passed = [one for one in measured if one.text in texts]
    usual = next((one.seconds for one in passed if one.backend == DEFAULT), None)
    best = min(passed, key=lambda one: one.seconds, default=None)
    if best is None or (usual is not None and best.seconds >= MIN_GAIN * usual):
        return DEFAULT
    return best.backend


def measure(backend: Backend, weights: Weights) -> Measured | None:
    """Runs the self-test in a process of its own; None if this machine cannot compute that way."""
    command = [sys.executable, "-m", __spec__.name, weights.name, str(weights.folder)]
    try:
        ran = subprocess.run(  # noqa: S603
            [*command, backend.compute_type],
            env={**DEFAULTS, **os.environ, **REQUIRED, **backend.environment},
            check=True,
            capture_output=True,
            timeout=SECONDS,
        )
        return Measured(backend, **json.loads(ran.stdout))
    except (subprocess.SubprocessError, ValueError):
        return None


def self_test(weights: Weights, compute_type: str) -> dict[str, object]:
    """The shortest of some runs, and the words; loads the model into this process."""
    from transcriber.model.loading import load_whisper

    decoder = load_whisper(weights, "cpu", compute_type, 1)
    options, seconds, speech = DecodeOptions(beam_size=5), [], _speech()
    for number in range(1 + RUNS):  # the first is slower
        audio = np.pad(speech, (number, 0))  # equal audio is not encoded again
        began = process_time()  # not wall time: the machine may be busy
        phrases = decoder.decode(audio, "en", options, lambda: False)
        seconds.append(process_time() - began)
    text = " ".join(re.findall(r"[\w']+", " ".join(one.text for one in phrases).lower()))
    return {"seconds": min(seconds[1:]), "text": text}


def _speech() -> Audio:
    with wave.open(str(SPEECH)) as file:
        unsigned = np.frombuffer(file.readframes(file.getnframes()), np.uint8)
    return (unsigned.astype(np.int16) - 128) * 256


def _record(cache_dir: Path) -> Path:
    return cache_dir / "backend.json"


def _identity(model: str) -> list[str]:
    """What a measurement is valid for."""
    try:
        names = re.findall(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        names = []
    processor = names[0] if names else platform.processor()
    return [processor, version("ctranslate2"), model]


def main() -> None:
    """Measures every candidate, prints the figures, and keeps the best."""
    from transcriber.model.weights import locate
    from transcriber.settings import Settings

    settings = Settings()
    weights = locate(settings.model, settings.cache_dir, "cpu")
    measured = []
    for compute_type in COMPUTE_TYPES:
        for environment in BACKENDS:
            backend = Backend(compute_type, environment)
            if found := measure(backend, weights):
                measured.append(found)
            result = f"{found.seconds:.2f} s  {found.text}" if found else "not on this machine"
            sys.stdout.write(f"{compute_type:14}{dict(environment)!s:24}{result}\n")
    if not measured:
        raise SystemExit(f"no candidate loads {weights.folder}")
    best = choose(measured)
    keep(best, settings.cache_dir, settings.model)
    sys.stdout.write(f"kept: {best.compute_type} {dict(best.environment)}\n")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        name, folder, kind = sys.argv[1:]
        sys.stdout.write(json.dumps(self_test(Weights(name, Path(folder)), kind)))
    else:
        main()
