"""Real models, loaded once per session."""

from pathlib import Path

import pytest

from tests.support.tiny_translation import NLLB, OPUS_TO_GERMAN, write_model
from transcriber.model.fork_server import start_fork_server
from transcriber.model.weights import locate
from transcriber.speech.whisper import WhisperDecoder


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> None:
    """Starts model processes as the service does."""
    start_fork_server()


@pytest.fixture(scope="session")
def weights_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def base(weights_cache: Path) -> WhisperDecoder:
    return WhisperDecoder(locate("base", weights_cache, "cpu"), "cpu", "int8", 1)


@pytest.fixture(scope="session")
def tiny_en(weights_cache: Path) -> WhisperDecoder:
    return WhisperDecoder(locate("tiny.en", weights_cache, "cpu"), "cpu", "int8", 1)


@pytest.fixture(scope="session")
def nllb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translation model between any two of its languages."""
    return write_model(tmp_path_factory.mktemp("models") / "tiny-nllb", NLLB)


@pytest.fixture(scope="session")
def opus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translation model from English to German only."""
    return write_model(tmp_path_factory.mktemp("models") / "tiny-opus", OPUS_TO_GERMAN)
