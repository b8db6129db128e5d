"""Runs the transcriber: `python -m transcriber`."""

import os
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path

from structlog import get_logger

from mesh.callers import guarded_by
from mesh.errors import MeshError
from mesh.server import Service
from mesh.service import run_process, serve
from transcriber.decoder import Decoder, Weights
from transcriber.engine import ModelInfo
from transcriber.model.backends import measure_at_first_start, recorded
from transcriber.model.fork_server import run_apart, start_fork_server
from transcriber.model.loading import (
    AUTO,
    Selection,
    installed,
    load_translator,
    load_whisper,
    select,
)
from transcriber.model.malloc import return_freed_memory
from transcriber.model.restartable import RestartableDecoder, RestartableTranslator
from transcriber.model.weights import describe, fetch
from transcriber.servicer import TranscriberServicer
from transcriber.settings import Settings
from transcriber.speech.streaming import Preparation, StreamingEngine
from transcriber.translation.translator import Models, Translator
from ytcaption.v1 import transcriber_service_pb2 as pb
from ytcaption.v1 import transcriber_service_pb2_grpc as rpc

log = get_logger(__name__)

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


def load(settings: Settings, preparation: Preparation) -> Models:
    """Locates and loads the models: seconds, or minutes if the weights must be fetched."""
    chosen = run_apart(
        partial(select, settings.model, settings.cache_dir, settings.device, settings.compute_type)
    )
    device, compute_type, weights = chosen.device, chosen.compute_type, chosen.weights
    if isinstance(weights, str):
        weights = fetch(weights, preparation.fetching)
    preparation.loading(weights.name)
    workers, threads = plan_workers(settings.workers, settings.cpu_threads, device, weights)
    decoder = RestartableDecoder(
        partial(load_whisper, weights, device, compute_type, threads, workers, chosen.max_batch),
        settings.idle_unload_seconds,
    )
    log.info("model loaded", model=decoder.model, device=device, compute_type=compute_type)
    if not settings.translation_model:
        return Models(decoder)
    try:
        return Models(decoder, _translator(settings, preparation, chosen, workers * threads))
    except MeshError:
        decoder.close()
        raise


def _translator(
    settings: Settings, preparation: Preparation, chosen: Selection, threads: int
) -> Translator:
    """One translator serves all recordings: translating text is fast, and the weights are large."""
    folder = Path(settings.translation_model).expanduser().resolve()
    preparation.loading(folder.name)
    translator = RestartableTranslator(
        partial(
            load_translator,
            folder,
            settings.translation_languages,
            chosen.device,
            chosen.compute_type,
            threads,
        ),
        settings.idle_unload_seconds,
    )
    log.info("translation model loaded", model=translator.model, targets=len(translator.targets))
    return translator


def new_engine(settings: Settings) -> StreamingEngine:
    """Builds the engine from the settings; it loads its models later."""

    @cache
    def names() -> Sequence[str]:
        return run_apart(partial(installed, settings.device))

    def list_models(decoder: Decoder | None) -> Sequence[ModelInfo]:
        if decoder is None:
            return describe(names(), None, frozenset(), loaded=False)
        return describe(names(), decoder.model, decoder.languages, loaded=decoder.is_loaded)

    return StreamingEngine(
        partial(load, settings),
        list_models,
        beam_size=settings.beam_size,
        max_recordings=settings.max_recordings,
        max_live_streams=settings.max_live_streams,
    )


def backend_environment() -> Mapping[str, str]:
    """Variables of the measured backend; CTranslate2 reads them when it is imported."""
    try:
        settings = Settings()
        settings.check()
    except (ValueError, MeshError):  # reported by run_process
        return {}
    if settings.compute_type != AUTO or settings.device == "cuda":
        return {}
    measured = recorded(settings.cache_dir, settings.model)
    if measured is None and settings.measure_backends:
        measure_at_first_start()
        measured = recorded(settings.cache_dir, settings.model)
    return measured.environment if measured else {}


async def main(settings: Settings) -> None:
    """Serves until SIGTERM."""
    engine = new_engine(settings)
    service = Service.of(
        pb.DESCRIPTOR.services_by_name["TranscriberService"],
        rpc.add_TranscriberServiceServicer_to_server,
        TranscriberServicer(engine),
    )
    try:
        await serve(settings, [guarded_by(settings.token_file, service)], engine.get_ready)
    finally:
        engine.close()


if __name__ == "__main__":
    return_freed_memory()
    start_fork_server(backend_environment())
    run_process("transcriber", Settings, main)
