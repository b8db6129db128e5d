"""Stores what bare faster-whisper heard: it does not change when the product does."""

import hashlib
import json
import os
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.asr_bare import options_of
from benchmarks.asr_contestants import Terms, batch_of
from benchmarks.asr_heard import Heard, Piece
from benchmarks.quality_corpus import Samples

ENGINES = ("faster-whisper", "ctranslate2")


def key_of(samples: Samples, way: str, terms: Terms) -> str:
    """Changes with anything that may change the text: samples, settings, engine versions."""
    # The number of threads is left out: it changes the time, not the text.
    settings: dict[str, Any] = {
        "model": terms.model,
        "beam": terms.beam,
        "compute_type": terms.compute_type,
        "way": way,
        "options": options_of(batch_of(way)),
        "versions": {name: version(name) for name in ENGINES},
    }
    digest = hashlib.sha256(samples.tobytes())
    digest.update(json.dumps(settings, sort_keys=True).encode())
    return digest.hexdigest()


class Cache:
    """One file for each answer; without a folder it stores nothing."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.hits = 0

    def load(self, key: str) -> Heard | None:
        """The stored answer; None if there is no such file or it is unreadable."""
        if self._folder is None:
            return None
        try:
            stored = json.loads(self._path(self._folder, key).read_text(encoding="utf-8"))
            pieces = [Piece(**piece) for piece in stored.pop("pieces")]
            heard = Heard(**stored, pieces=pieces)
        except (OSError, ValueError, TypeError, KeyError):
            return None
        self.hits += 1
        return heard

    def store(self, key: str, heard: Heard) -> None:
        """Writes an answer; readers never see half a file."""
        if self._folder is None:
            return
        path = self._path(self._folder, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(asdict(heard), ensure_ascii=False), encoding="utf-8")
        part.replace(path)

    @staticmethod
    def _path(folder: Path, key: str) -> Path:
        return folder / key[:2] / f"{key}.json"
