"""How many threads compute at the same time, and how many each of them uses."""

import os

from transcriber.decoder import Weights

MAX_WORKERS = 4
"""Default limit: each worker has buffers of its own."""

MAX_THREADS = 8
"""Default limit: more threads mostly wait for each other."""

LARGE_BYTES = 600_000_000
"""With larger weights the buffers of a second worker are too large."""


def plan_workers(workers: int, threads: int, device: str, weights: Weights) -> tuple[int, int]:
    """The number of workers, and of threads of each.

    Many workers with one thread each are faster than one worker with many threads.
    """
    threads = threads or min(_allowed(), MAX_THREADS)
    if not workers:
        size = (weights.folder / "model.bin").stat().st_size
        is_single = device != "cpu" or size > LARGE_BYTES
        workers = 1 if is_single else min(threads, MAX_WORKERS)
    return workers, max(1, threads // workers)


def _allowed() -> int:
    # CPUs this process may use, which can be fewer than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
