"""Several decoders that look like one: windows are decoded side by side."""

import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from structlog import get_logger

from mesh.errors import MeshError
from transcriber.decoder import Decoder, How, Phrase
from transcriber.killable import KillableDecoder
from transcriber.vad import Audio
from transcriber.weights import Weights

log = get_logger(__name__)

MAX_WORKERS = 4
"""Unless an operator wants more: each has the weights for itself."""

MAX_THREADS = 8
"""Beyond this more threads wait for each other."""

LARGE_BYTES = 600_000_000
"""Weights of this size are not held twice."""


@dataclass(frozen=True, slots=True)
class Crew:
    """How the processor is shared out."""

    workers: int
    threads_each: int


def choose_crew(workers: int, threads: int, device: str, weights: Weights) -> Crew:
    """Two windows on a thread each are through sooner than one after the other on both."""
    threads = threads or min(_allowed(), MAX_THREADS)
    if not workers:
        size = (weights.folder / "model.bin").stat().st_size
        is_single = device != "cpu" or size > LARGE_BYTES
        workers = 1 if is_single else min(threads, MAX_WORKERS)
    return Crew(workers, max(1, threads // workers))


def _allowed() -> int:
    # What this process may use, not what the machine has, where the system tells.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Pool:
    """One decoder is there at once; the others come while it may already work."""

    def __init__(
        self, load: Callable[[], Decoder], workers: int = 1, idle_seconds: float = 0
    ) -> None:
        first = KillableDecoder(load, idle_seconds)
        self.model = first.model
        self.device = first.device
        self.compute_type = first.compute_type
        self.languages = first.languages
        self.translates = first.translates
        self.at_once = workers
        self._all = [first]
        # The last that was used comes first: those not needed stay idle, and are freed.
        self._free: queue.LifoQueue[KillableDecoder] = queue.LifoQueue()
        self._free.put(first)
        self._closed = False
        self._lock = threading.Lock()
        for _ in range(workers - 1):
            threading.Thread(target=self._add, args=(load, idle_seconds), daemon=True).start()

    @property
    def is_loaded(self) -> bool:
        """Whether any of them is."""
        return any(decoder.is_loaded for decoder in self._all)

    def wake(self) -> None:
        """Returns when one is; the others load when windows wait for them."""
        with self._one() as decoder:
            decoder.wake()

    def detect(self, audio: Audio, abandoned: Callable[[], bool]) -> tuple[str, float]:
        """The code of the language spoken, and how sure that is."""
        with self._one() as decoder:
            return decoder.detect(audio, abandoned)

    def decode(
        self, audio: Audio, language: str, how: How, abandoned: Callable[[], bool]
    ) -> list[Phrase]:
        """Phrases in time order."""
        with self._one() as decoder:
            return decoder.decode(audio, language, how, abandoned)

    def close(self) -> None:
        """Ends them all."""
        with self._lock:
            self._closed = True
            for decoder in self._all:
                decoder.close()

    @contextmanager
    def _one(self) -> Iterator[KillableDecoder]:
        decoder = self._free.get()
        try:
            yield decoder
        finally:
            self._free.put(decoder)

    def _add(self, load: Callable[[], Decoder], idle_seconds: float) -> None:
        try:
            decoder = KillableDecoder(load, idle_seconds)
        except MeshError as error:
            log.warning("one decoder less", why=str(error))
            return
        with self._lock:
            self._all.append(decoder)
            if self._closed:
                decoder.close()
        self._free.put(decoder)
