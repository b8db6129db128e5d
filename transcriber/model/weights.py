"""Model selection: which model to use, and where its weights are."""

from collections.abc import Sequence
from pathlib import Path

from mesh.errors import UnavailableError
from mesh.languages import WHISPER
from mesh.reasons import Reason
from transcriber.decoder import Weights
from transcriber.engine import ModelInfo
from transcriber.model import hub
from transcriber.model.bundled_weights import BUNDLED, unpack
from transcriber.speech.language_detection import NEWER, to_tags

AUTO = "auto"
DEFAULT = "base"

_BY_QUALITY = (
    "large-v3",
    "large-v2",
    "large-v3-turbo",
    "large-v1",
    "medium",
    "small",
    "base",
    "tiny",
    "distil-large-v3.5",
    "distil-large-v3",
    "distil-large-v2",
    "medium.en",
    "distil-medium.en",
    "small.en",
    "distil-small.en",
    "base.en",
    "tiny.en",
)
"""Models for one language come last: the next recording may be in another."""

_SLOWER_THAN_SPEECH = ("large", "medium", "distil-large", "turbo")
"""Slower than real time on a CPU."""


def locate(model: str, cache_dir: Path, device: str) -> Weights:
    """Finds the configured weights: folder, cache, bundled package, and the hub last."""
    found = find(model, cache_dir, device)
    return found if isinstance(found, Weights) else fetch(found, lambda *_: None)


def fetch(name: str, fetched: hub.FetchProgress) -> Weights:
    """Downloads weights from the hub."""
    return Weights(_without_commit(name), hub.fetch(name, fetched))


def _without_commit(name: str) -> str:
    """The name by which a model is known and its languages are derived."""
    return name.partition("@")[0]


def find(model: str, cache_dir: Path, device: str) -> Weights | str:
    """The weights on this machine, or the name of the model to fetch."""
    if model == AUTO:
        return _best(cache_dir, device)
    if Path(model).expanduser().is_dir():
        folder = Path(model).expanduser().resolve()
        return Weights(folder.name, folder)
    if model not in BUNDLED and not hub.knows(model):
        raise UnavailableError(
            f"there is no model {model!r}: give a folder, an owner/name of the hub, or one of "
            + ", ".join(hub.names())
            + "; names may end in @ and a commit of 40 digits",
            reason=Reason.MODEL_UNAVAILABLE,
        )
    here = _local(model, cache_dir)
    return Weights(_without_commit(model), here) if here is not None else model


def _best(cache_dir: Path, device: str) -> Weights | str:
    for name in ranked(device):
        folder = _local(name, cache_dir)
        if folder is not None:
            return Weights(name, folder)
    return DEFAULT


def _local(name: str, cache_dir: Path) -> Path | None:
    folder = hub.cached(name)
    if folder is None and name in BUNDLED:
        folder = unpack(BUNDLED[name], cache_dir / "weights")
    return folder


def ranked(device: str) -> list[str]:
    """Model names, best first for this device."""
    if device == "cuda":
        return list(_BY_QUALITY)
    return sorted(_BY_QUALITY, key=lambda name: name.startswith(_SLOWER_THAN_SPEECH))


def on_this_machine(device: str) -> list[str]:
    """Names of the models that need no network, best first."""
    return [
        name
        for name in ranked(device)
        if hub.cached(name) or (name in BUNDLED and BUNDLED[name].files())
    ]


def languages_of(name: str) -> frozenset[str]:
    """Languages of a model, by its name."""
    if name.endswith(".en") or name.startswith("distil-"):
        return frozenset({"en"})
    return WHISPER if name.startswith("large-v3") else WHISPER - NEWER


def describe(
    names: Sequence[str], selected: str | None, its_languages: frozenset[str], *, loaded: bool
) -> list[ModelInfo]:
    """These models, and before them the selected one if it is another."""
    if selected is not None and selected not in names:
        names = [selected, *names]
    return [
        ModelInfo(
            name=name,
            languages=to_tags(its_languages if name == selected else languages_of(name)),
            loaded=loaded and name == selected,
            selected=name == selected,
        )
        for name in names
    ]
