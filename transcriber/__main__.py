"""Runs the transcriber: `python -m transcriber`."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from structlog import get_logger

from mesh.errors import MeshError
from mesh.server import Service
from mesh.service import run_process, serve
from transcriber.ctranslate import load_translator
from transcriber.decoder import Decoder
from transcriber.engine import ModelFacts
from transcriber.killable import KillableTranslator
from transcriber.nursery import open_nursery
from transcriber.pool import Pool, choose_crew
from transcriber.preparing import Preparation
from transcriber.servicer import TranscriberServicer
from transcriber.settings import Settings
from transcriber.streaming import StreamingEngine
from transcriber.translating import Models, Translator
from transcriber.weights import describe, locate
from transcriber.whisper import choose_compute_type, choose_device, load_whisper
from ytcaption.v1 import transcriber_service_pb2 as pb
from ytcaption.v1 import transcriber_service_pb2_grpc as rpc

log = get_logger(__name__)


def load(settings: Settings, preparation: Preparation) -> Models:
    """Finds the weights and loads them; takes seconds, or minutes if they must be fetched."""
    device = choose_device(settings.device)
    compute_type = choose_compute_type(settings.compute_type, device)
    weights = locate(settings.model, settings.cache_dir, device, preparation.fetching)
    preparation.loading(weights.name)
    crew = choose_crew(settings.workers, settings.cpu_threads, device, weights)
    decoder = Pool(
        partial(load_whisper, weights, device, compute_type, crew.threads_each),
        crew.workers,
        settings.idle_unload_seconds,
    )
    log.info("model loaded", model=decoder.model, device=device, compute_type=compute_type)
    if not settings.translation_model:
        return Models(decoder)
    threads = crew.workers * crew.threads_each
    try:
        return Models(decoder, _translator(settings, preparation, device, threads))
    except MeshError:
        decoder.close()
        raise


def _translator(
    settings: Settings, preparation: Preparation, device: str, threads: int
) -> Translator:
    """One for all recordings: text is through soon, and the weights are large."""
    folder = Path(settings.translation_model).expanduser().resolve()
    preparation.loading(folder.name)
    compute_type = choose_compute_type(settings.compute_type, device)
    translator = KillableTranslator(
        partial(
            load_translator,
            folder,
            settings.translation_languages,
            device,
            compute_type,
            threads,
        ),
        settings.idle_unload_seconds,
    )
    log.info("translation model loaded", model=translator.model, targets=len(translator.targets))
    return translator


def new_engine(settings: Settings) -> StreamingEngine:
    """The engine as the settings want it; not ready yet."""

    def list_models(decoder: Decoder | None) -> Sequence[ModelFacts]:
        device = choose_device(settings.device)
        if decoder is None:
            return describe(device, None, frozenset(), loaded=False)
        return describe(device, decoder.model, decoder.languages, loaded=decoder.is_loaded)

    return StreamingEngine(
        partial(load, settings),
        list_models,
        beam_size=settings.beam_size,
        max_recordings=settings.max_recordings,
    )


async def main(settings: Settings) -> None:
    """Serves until told to stop."""
    engine = new_engine(settings)
    service = Service.of(
        pb.DESCRIPTOR.services_by_name["TranscriberService"],
        rpc.add_TranscriberServiceServicer_to_server,
        TranscriberServicer(engine),
    )
    try:
        await serve(settings, [service], engine.get_ready)
    finally:
        engine.close()


if __name__ == "__main__":
    open_nursery()
    run_process("transcriber", Settings, main)
