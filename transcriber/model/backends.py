"""Measures CTranslate2's compute types and backends on this machine, and keeps the best.

Every candidate decodes a few seconds of speech in a process of its own: CTranslate2 chooses its
backend when it is imported. Of those that hear what float32 hears and are about as fast as the
fastest, the one that needs the least memory is kept in a file of the cache folder, and
TRANSCRIBER_COMPUTE_TYPE=auto uses it. With TRANSCRIBER_MEASURE_BACKENDS the service measures at its
first start, before it serves; `python -m transcriber.model.backends` measures again and prints the
figures. A service that serves never measures: a choice made while jobs run would change their text.
"""

import json
import os
import platform
import re
import resource
import subprocess
import sys
import threading
import wave
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher
from importlib.metadata import version
from pathlib import Path
from time import monotonic, process_time

import numpy as np

from transcriber.decoder import Audio, Weights
from transcriber.model.fork_server import DEFAULTS, REQUIRED
from transcriber.settings import Settings
from transcriber.speech.batching import MAX_BATCH

SLOWER_BY, LARGER_BY = 1.1, 1.05
"""About as fast as the fastest, and about as small as the smallest: figures vary a little."""

RUNS, WINDOWS, BEAM = 2, 4, 1
"""How often the speech is decoded, and how: several windows at once and without a wide beam, as
most of a long recording is."""

MIN_AGREEMENT = 0.9
"""So much of its words a candidate must share with float32: any rounding may change one."""

SECONDS = 120.0
"""The most the default and float32 may take, their start included."""

SLOWER, LEAST_SECONDS = 2.0, 5.0
"""Another candidate is given up after so many times what the default took, but not before these
seconds: on a busy machine a start takes longer."""

SPEECH = Path(__file__).with_name("self_test.wav")


@dataclass(frozen=True, slots=True)
class Backend:
    """A way to compute."""

    compute_type: str
    environment: Mapping[str, str] = field(default_factory=dict)
    batch: int = MAX_BATCH
    """Windows generated together: oneDNN gains by it, MKL little, and each takes memory."""


DEFAULT, REFERENCE = Backend("int8"), Backend("float32")
SMALL_BATCH = 2
FIRST_START = "--first-start"


@dataclass(frozen=True, slots=True)
class Measured:
    """Processor seconds and megabytes a backend takes for the speech, and what it hears."""

    backend: Backend
    seconds: float
    megabytes: float
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
    """Of those that hear what float32 hears and are about as fast as the fastest, the smallest.

    The default stays unless another is clearly better.
    """
    references = [one for one in measured if one.backend == REFERENCE]
    passed = [one for one in measured if any(_agree(one.text, each.text) for each in references)]
    fast = _about_the_least(passed, lambda one: one.seconds, SLOWER_BY)
    small = _about_the_least(fast, lambda one: one.megabytes, LARGER_BY)
    if not small or any(one.backend == DEFAULT for one in small):
        return DEFAULT
    return min(small, key=lambda one: one.seconds).backend


def _about_the_least(
    measured: Sequence[Measured], cost: Callable[[Measured], float], tolerance: float
) -> list[Measured]:
    least = min(map(cost, measured), default=0.0)
    return [one for one in measured if cost(one) <= tolerance * least]


def _agree(text: str, reference: str) -> bool:
    """Whether nearly all words are the same."""
    return SequenceMatcher(None, text.split(), reference.split()).ratio() >= MIN_AGREEMENT


def measure(backend: Backend, weights: Weights, seconds: float = SECONDS) -> Measured | None:
    """Runs the self-test in a process of its own; None if it fails or takes longer than that."""
    command = [sys.executable, "-m", __spec__.name, weights.name, str(weights.folder)]
    command += [backend.compute_type, str(backend.batch)]
    try:
        with _supervised(command, backend.environment) as process:
            printed, _ = process.communicate(timeout=seconds)
        return Measured(backend, **json.loads(printed))
    except (subprocess.SubprocessError, ValueError, TypeError):
        return None


def measure_all(
    weights: Weights, report: Callable[[Backend, Measured | None], None]
) -> list[Measured]:
    """Those that work on this machine; a backend much slower than the default is tried once."""
    found: list[Measured] = []

    def works(backend: Backend, seconds: float = SECONDS) -> bool:
        one = measure(backend, weights, seconds)
        found.extend([one] if one else [])
        report(backend, one)
        return one is not None

    began = monotonic()
    works(DEFAULT)
    patience = max(LEAST_SECONDS, SLOWER * (monotonic() - began))
    works(REFERENCE)
    for candidate in _others({}):
        works(candidate, patience)
    # CTranslate2 chooses MKL on Intel and oneDNN elsewhere; this is the other one.
    other = {"CT2_USE_MKL": "0" if "Intel" in _processor() else "1"}
    for candidate in (Backend("int8", other), *_others(other)):
        if not works(candidate, patience):
            break
    return found


def _others(environment: Mapping[str, str]) -> list[Backend]:
    """Besides int8, which on a processor means int8_float32."""
    return [
        Backend("int8", environment, batch=SMALL_BATCH),
        Backend("int8_bfloat16", environment),
    ]


def measure_at_first_start() -> None:
    """Measures in a process that ends with this one; without a result, the default stays."""
    command = [sys.executable, "-m", __spec__.name, FIRST_START]
    with _supervised(command, {}) as process:  # every candidate has a limit of time
        process.communicate()


@contextmanager
def _supervised(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that ends with the block, and with this process, even if that is killed."""
    read, write = os.pipe()  # only this process can write, and never does
    process = subprocess.Popen(  # noqa: S603
        command,
        env={**DEFAULTS, **os.environ, **REQUIRED, **environment},
        stdin=read,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    os.close(read)
    with process:
        try:
            yield process
        finally:
            process.kill()
            os.close(write)


def _end_with_parent() -> None:
    """Ends this process once the one that started it is gone: then stdin has an end."""

    def wait() -> None:
        sys.stdin.buffer.read()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def self_test(weights: Weights, compute_type: str, batch: int) -> dict[str, object]:
    """The shortest of some runs, and the words; loads the model into this process."""
    from transcriber.model.loading import load_whisper

    decoder = load_whisper(weights, "cpu", compute_type, 1)
    speech, seconds = _speech(), []
    decoder.decode_once([speech], "en", BEAM)  # the first is slower
    for _ in range(RUNS):
        began = process_time()  # not wall time: the machine may be busy
        for _ in range(WINDOWS // batch):
            found = decoder.decode_once([speech] * batch, "en", BEAM)
        seconds.append(process_time() - began)
    words = re.findall(r"[\w']+", found[0].lower())
    return {"seconds": min(seconds), "megabytes": _peak_megabytes(), "text": " ".join(words)}


def _peak_megabytes() -> float:
    """The most memory this process had."""
    try:
        # Not ru_maxrss there: it begins with what the parent had.
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
    (kilobytes,) = re.findall(r"VmHWM:\s*(\d+) kB", status)
    return int(kilobytes) / 1e3


def _speech() -> Audio:
    with wave.open(str(SPEECH)) as file:
        unsigned = np.frombuffer(file.readframes(file.getnframes()), np.uint8)
    return (unsigned.astype(np.int16) - 128) * 256


def _record(cache_dir: Path) -> Path:
    return cache_dir / "backend.json"


def _identity(model: str) -> list[str]:
    """What a measurement is valid for."""
    return [_processor(), version("ctranslate2"), model]


def _processor() -> str:
    try:
        names = re.findall(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        names = []
    return names[0] if names else platform.processor()


def main(settings: Settings) -> None:
    """Measures every candidate, prints the figures, and keeps the best."""
    from transcriber.model.loading import select

    chosen = select(settings.model, settings.cache_dir, settings.device, settings.compute_type)
    if chosen.device != "cpu":
        raise SystemExit(f"nothing to measure: the model runs on {chosen.device}")
    if isinstance(chosen.weights, str):
        raise SystemExit(f"the weights of {chosen.weights!r} are not here: start the service first")

    def report(backend: Backend, found: Measured | None) -> None:
        result = (
            f"{found.seconds:.2f} s {found.megabytes:4.0f} MB  {found.text}"
            if found
            else "fails or is much slower"
        )
        sys.stdout.write(f"{_described(backend):52}{result}\n")

    measured = measure_all(chosen.weights, report)
    if not measured:
        raise SystemExit(f"no candidate loads {chosen.weights.folder}")
    best = choose(measured)
    keep(best, settings.cache_dir, settings.model)
    sys.stdout.write(f"kept: {_described(best)}\n")


def _described(backend: Backend) -> str:
    environment = "".join(f", {name}={value}" for name, value in backend.environment.items())
    return f"{backend.compute_type}, batches of {backend.batch}{environment}"


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments:  # started by this module
        _end_with_parent()
    if len(arguments) == 4:
        name, folder, kind, size = arguments
        sys.stdout.write(json.dumps(self_test(Weights(name, Path(folder)), kind, int(size))))
    else:
        main(Settings())
