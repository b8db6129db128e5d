"""A translation model run by CTranslate2: NLLB, M2M100, Opus-MT and their like."""

import json
from collections.abc import Callable
from pathlib import Path

import ctranslate2

from mesh.errors import UnavailableError
from mesh.reasons import Reason
from transcriber.naming import read_naming
from transcriber.pieces import open_pieces
from transcriber.translating import Translate

END = "</s>"
MAX_PIECES = 256
"""More than anybody says in one piece of text."""


class CTranslator:
    """One loaded model; deterministic, so that a resumed job continues its own text."""

    def __init__(
        self, folder: Path, languages: str, device: str, compute_type: str, threads: int
    ) -> None:
        self.model = folder.name
        self.is_loaded = True
        try:
            self._pieces = open_pieces(folder)
            self._naming = read_naming(_vocabulary(folder), languages)
            self._ends_itself = bool(_config(folder).get("add_source_eos"))
            self._model = ctranslate2.Translator(
                str(folder), device=device, compute_type=compute_type, intra_threads=threads
            )
        except (RuntimeError, ValueError, OSError) as error:
            raise UnavailableError(
                f"the translation model {folder} does not load on {device} as {compute_type}: "
                f"{error}",
                reason=Reason.MODEL_UNAVAILABLE,
            ) from error
        self.sources = frozenset(self._naming.sources)
        self.targets = self._naming.targets

    def wake(self) -> None:
        """It has been loaded since it was made."""

    def translate(self, order: Translate, abandoned: Callable[[], bool]) -> list[str]:
        """One text for each."""
        naming = self._naming
        before = [*naming.asked[order.target], *naming.sources[order.source]]
        after = [] if self._ends_itself else [END]
        forced = list(naming.forced[order.target])
        results = self._model.translate_batch(
            [[*before, *self._pieces.split(text), *after] for text in order.texts],
            target_prefix=[forced] * len(order.texts) if forced else None,
            beam_size=order.beam_size,
            max_decoding_length=MAX_PIECES,
            disable_unk=True,
        )
        return [self._pieces.join(found.hypotheses[0][len(forced) :]) for found in results]

    def close(self) -> None:
        """Its memory goes with the last reference."""


def load_translator(
    folder: Path, languages: str, device: str, compute_type: str, threads: int
) -> CTranslator:
    """A translator in a process that does nothing else."""
    return CTranslator(folder, languages, device, compute_type, threads)


def _config(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return found


def _vocabulary(folder: Path) -> frozenset[str]:
    """Names of languages are before the text, so they are in what the model reads."""
    for name in ("shared_vocabulary", "source_vocabulary"):
        if (folder / f"{name}.json").is_file():
            return frozenset(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")))
        if (folder / f"{name}.txt").is_file():
            return frozenset((folder / f"{name}.txt").read_text(encoding="utf-8").split("\n"))
    raise UnavailableError(
        f"{folder} holds no CTranslate2 translation model", reason=Reason.MODEL_UNAVAILABLE
    )
