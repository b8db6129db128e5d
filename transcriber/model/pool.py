"""Pool of restartable decoders behind one Decoder interface; decodes windows in parallel."""

import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from structlog import get_logger

from mesh.errors import MeshError
from transcriber.decoder import Audio, DecodeOptions, Decoder, Phrase, Weights
from transcriber.model.restartable import RestartableDecoder

log = get_logger(__name__)

MAX_WORKERS = 4
"""Default limit: each worker has its own copy of the weights."""

MAX_THREADS = 8
"""Default limit: more threads mostly wait for each other."""

LARGE_BYTES = 600_000_000
"""Larger weights are loaded once only."""


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """Number of workers, and threads of each."""

    workers: int
    threads_per_worker: int


def plan_workers(workers: int, threads: int, device: str, weights: Weights) -> WorkerPlan:
    """Many workers with one thread each: faster than one worker with many threads."""
    threads = threads or min(_allowed(), MAX_THREADS)
    if not workers:
        size = (weights.folder / "model.bin").stat().st_size
        is_single = device != "cpu" or size > LARGE_BYTES
        workers = 1 if is_single else min(threads, MAX_WORKERS)
    return WorkerPlan(workers, max(1, threads // workers))


def _allowed() -> int:
    # CPUs this process may use, which can be fewer than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class DecoderPool:
    """One decoder is there at once; the others come while it may already work."""

    def __init__(
        self, load: Callable[[], Decoder], workers: int = 1, idle_seconds: float = 0
    ) -> None:
        first = RestartableDecoder(load, idle_seconds)
        self.model = first.model
        self.device = first.device
        self.compute_type = first.compute_type
        self.languages = first.languages
        self.translates = first.translates
        self.concurrency = workers
        self._all = [first]
        # LIFO: decoders that are not needed stay idle and are freed.
        self._free: queue.LifoQueue[RestartableDecoder] = queue.LifoQueue()
        self._free.put(first)
        self._closed = False
        self._lock = threading.Lock()
        for _ in range(workers - 1):
            threading.Thread(target=self._add, args=(load, idle_seconds), daemon=True).start()

    @property
    def is_loaded(self) -> bool:
        """Whether any decoder is loaded."""
        return any(decoder.is_loaded for decoder in self._all)

    def ensure_loaded(self) -> None:
        """Loads one decoder; the others load with their first window."""
        with self._one() as decoder:
            decoder.ensure_loaded()

    def detect(self, audio: Audio, abandoned: Callable[[], bool]) -> Mapping[str, float]:
        """The probability of each language, by code."""
        with self._one() as decoder:
            return decoder.detect(audio, abandoned)

    def decode(
        self, audio: Audio, language: str, options: DecodeOptions, abandoned: Callable[[], bool]
    ) -> list[Phrase]:
        """Phrases in time order."""
        with self._one() as decoder:
            return decoder.decode(audio, language, options, abandoned)

    def close(self) -> None:
        """Closes all decoders."""
        with self._lock:
            self._closed = True
            for decoder in self._all:
                decoder.close()

    @contextmanager
    def _one(self) -> Iterator[RestartableDecoder]:
        decoder = self._free.get()
        try:
            yield decoder
        finally:
            self._free.put(decoder)

    def _add(self, load: Callable[[], Decoder], idle_seconds: float) -> None:
        try:
            decoder = RestartableDecoder(load, idle_seconds)
        except MeshError as error:
            log.warning("decoder failed to load, pool is smaller", why=str(error))
            return
        with self._lock:
            self._all.append(decoder)
            if self._closed:
                decoder.close()
        self._free.put(decoder)
